#include "servers/sending.hpp"

#include <algorithm>

#include "redis/backoff.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"

namespace sliding_log {

namespace {

/// How often a call is repeated after NOSCRIPT: if that is not enough, the server does not keep scripts.
constexpr unsigned kMostScriptMisses = 6;

/// Loading a script that others have loaded takes a server and its network less.
constexpr std::uint64_t kLoadNs = 2'000'000;

}  // namespace

Sending::Sending(SendingOwner& owner, Connection& connection, ServerCounters& counters, ngx_msec_t timeout,
                 ngx_log_t* nginxLog)
    : owner_(owner),
      connection_(connection),
      counters_(counters),
      timeout_(timeout),
      scripts_(owner, connection),
      scriptWait_(
          this, [](void* self) { static_cast<Sending*>(self)->sendWaiting(); }, Timer::Kind::Chore, nginxLog) {}

void Sending::send(Call& call) {
    call.isOnWire = false;
    native_.choose(call);
    call.prepare();
    if (!owner_.isReady() || (call.followsAsk && !connection_.send(kAsking, *this)) ||
        !connection_.send(call.text(), call)) {
        waiting_.pushBack(call);
        return;
    }
    call.isOnWire = true;
    call.sequence = ++sent_;
    call.sentNs = nowNs();
    const bool isAgain = call.scriptMisses > 0 || call.isPart || call.leavesNative || call.leavesShort;
    counters_.sent(isAgain ? 0 : call.requests());  // counted once
}

void Sending::sendWaiting() {
    List<Call, Queued> waiting;
    waiting_.moveTo(waiting);
    while (Call* call = waiting.popFront()) {
        sendIfWanted(*call);
    }
}

void Sending::sendIfWanted(Call& call) {
    if (call.isWanted()) {
        send(call);
    } else {
        call.lost();
    }
}

void Sending::loseWaiting() {
    while (Call* call = waiting_.popFront()) {
        call->lost();
    }
}

std::optional<StoreError> Sending::meaningOf(Call& call, const redisReply& reply, StoreError error) {
    if (call.isNative && reply.type == REDIS_REPLY_ERROR && leavesNative(call, replyText(reply))) {
        if (!call.isRepeatable()) {
            return StoreError::TryAgain;  // it was not executed
        }
        sendIfWanted(call);
        return {};
    }
    if (error == StoreError::None && !call.isNative) {
        scripts_.found(call.algorithm);
    }
    if (error != StoreError::NoScript || !scripts_.mayLoad(call.algorithm)) {
        return error;
    }
    if (!call.isRepeatable()) {
        scripts_.load(call, sent_);
    } else if (call.scriptMisses < kMostScriptMisses) {
        repeatWithScript(call);
        return {};
    } else {
        scripts_.notKept(call.algorithm);
    }
    return error;
}

/// True if this is an error of the native module after which the call is sent in another form.
bool Sending::leavesNative(Call& call, std::string_view answer) {
    switch (native_.read(call, answer)) {
        case NativeForms::Meaning::Other:
            return false;
        case NativeForms::Meaning::Another:
            return true;
        case NativeForms::Meaning::Absent:
            break;
    }
    return owner_.nativeIsAbsent(answer);
}

/// NOSCRIPT: all workers of a fleet miss a script at the same time, and another one may load it in a moment, so the
/// call is repeated after a random time, so short that a request which may wait for half of the timeout has its answer.
/// If the script is still missing then, the first of all calls in flight loads it; the others, which were sent before
/// that, are only repeated after it.
void Sending::repeatWithScript(Call& call) {
    const bool isFirst = call.scriptMisses++ == 0;
    if (isFirst || (!scripts_.isLoadedFor(call) && leavesLoadingToOthers(call))) {
        call.isOnWire = false;
        waiting_.pushBack(call);
        if (!scriptWait_.isSet()) {
            const ngx_msec_t most = std::min<ngx_msec_t>(kSpreadMs, timeout_ / 4);
            scriptWait_.set(randomNumber() % (most + 1));
        }
        return;
    }
    scripts_.load(call, sent_);
    send(call);
}

/// Where all workers of a large fleet have connected at once, replies take longer than a random time, and hundreds of
/// workers would load 110,000 bytes each. So the longer the server was busy, the fewer of them do; the others ask
/// again.
bool Sending::leavesLoadingToOthers(const Call& call) const {
    constexpr unsigned kMostTimes = 3;
    const std::uint64_t busyNs = call.tookNs - std::min(call.tookNs, networkNs_);
    return call.scriptMisses <= kMostTimes && randomNumber() % (1 + busyNs / kLoadNs) != 0;
}

void Sending::replied(const redisReply* reply) {
    owner_.preparationReplied("ASKING answered", reply);
}

}  // namespace sliding_log
