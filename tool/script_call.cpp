#include "script_call.hpp"

#include "failure.hpp"
#include "forms.hpp"
#include "redis/reply.hpp"
#include "redis/script_arguments.hpp"
#include "redis/scripts.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

struct CallWords {
    void key(std::string_view text) { keys.emplace_back(text); }
    void argument(std::string_view text) { arguments.emplace_back(text); }

    Command keys;
    Command arguments;
};

Check checkOf(Algorithm algorithm, std::string_view key, const CheckSettings& settings) {
    Check check;
    check.key = key;
    check.algorithm = algorithm;
    check.limit = settings.limit;
    check.windowMs = settings.windowMs;
    check.ttlMs = settings.ttlMs;
    check.burst = settings.limit;
    check.sample = kDefaultSample;
    if (traitsOf(algorithm).countsPeriods) {
        check.ttlMs += settings.windowMs;  // its key lives the part beyond the window longer than its period
    }
    return check;
}

}  // namespace

Command scriptCall(Algorithm algorithm, const std::string& key, const CheckSettings& settings,
                   std::span<const std::string> names) {
    CallWords words;
    ScriptArguments arguments(words);
    arguments.decide(algorithm, std::to_string(settings.nowMs));
    arguments.batch(1, names.size());
    for (const std::string& name : names) {
        arguments.request(name);
    }
    arguments.log(checkOf(algorithm, key, settings));
    Command command = {"EVALSHA", std::string(scriptSha(algorithm)), std::to_string(words.keys.size())};
    command.insert(command.end(), words.keys.begin(), words.keys.end());
    command.insert(command.end(), words.arguments.begin(), words.arguments.end());
    return command;
}

std::int64_t admittedIn(ReplyView reply, Algorithm algorithm, const CheckSettings& settings, std::size_t requests) {
    const ReplyView answer = checked(checked(reply, "the script")[0], "the script");
    const Check check = checkOf(algorithm, {}, settings);
    BatchReply batch;
    if (answer.raw() == nullptr || batch.read(*answer.raw(), requests, {&check, 1}) != StoreError::None) {
        throw CouldNotAsk("unexpected reply of the script");
    }
    return static_cast<std::int64_t>(batch.admitted());
}

void loadScript(Server& server, Algorithm algorithm) {
    const Reply reply = server.ask({"SCRIPT", "LOAD", std::string(scriptSource(algorithm))});
    if (reply.isError() && reply.text().find("Could not find scripting engine") != std::string_view::npos) {
        throw CouldNotAsk(
            "the server has no Lua, which is a module of Valkey from 9.1 on: load libvalkeylua.so (loadmodule), or "
            "redis_sliding_log.so, which decides without scripts");
    }
    checked(reply, "SCRIPT LOAD");
    if (reply.text() != scriptSha(algorithm)) {
        throw CouldNotAsk("SCRIPT LOAD replied with an unexpected SHA-1");
    }
}

}  // namespace sliding_log::tool
