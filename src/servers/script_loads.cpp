#include "servers/script_loads.hpp"

#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "redis/scripts.hpp"
#include "redis/store_error.hpp"
#include "this_process.hpp"

namespace sliding_log {

ScriptLoads::ScriptLoads(PreparationOwner& owner, Connection& connection) : connection_(connection) {
    for (Script& script : scripts_) {
        script.owner = &owner;
    }
}

void ScriptLoads::forget() {
    for (Script& script : scripts_) {
        script.backoff.reset();
        script.againAt = nowMs();
    }
}

void ScriptLoads::load(const Call& call, std::uint64_t sent) {
    Script& script = of(call.algorithm);
    if (!isLoadedFor(call)) {
        script.loadedAt = sent;
        connection_.send(command({"SCRIPT", "LOAD", scriptSource(call.algorithm)}), script);
    }
}

void ScriptLoads::Script::waitLonger() {
    againAt = nowMs() + backoff.next(randomNumber());
}

/// A server that is busy may be asked again.
void ScriptLoads::Script::replied(const redisReply* reply) {
    const StoreError error = reply == nullptr ? StoreError::None : errorIn(*reply);
    if (error != StoreError::None && error != StoreError::TryAgain) {
        waitLonger();
    }
    owner->preparationReplied("SCRIPT LOAD answered", reply);
}

}  // namespace sliding_log
