#include "decision.hpp"

#include "failure.hpp"
#include "forms.hpp"
#include "redis/reply.hpp"
#include "redis/script_arguments.hpp"
#include "redis/scripts.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::int64_t kUsualSample = 10;  // the default of sample=

struct Words {
    void key(std::string_view text) { keys.emplace_back(text); }
    void argument(std::string_view text) { arguments.emplace_back(text); }

    Command keys;
    Command arguments;
};

Check questionOf(Algorithm algorithm, std::string_view key, const Decision& decision) {
    Check check;
    check.key = key;
    check.algorithm = algorithm;
    check.limit = decision.limit;
    check.windowMs = decision.windowMs;
    check.ttlMs = decision.ttlMs;
    check.burst = decision.limit;
    if (takes(algorithm, Parameter::Period)) {
        check.ttlMs += decision.windowMs;  // its key lives the part beyond the window longer than its period
    }
    check.sample = kUsualSample;
    return check;
}

}  // namespace

Command decide(Algorithm algorithm, const std::string& key, const Decision& decision,
               std::span<const std::string> names) {
    Words words;
    ScriptArguments arguments(words);
    arguments.decide(algorithm, std::to_string(decision.nowMs));
    arguments.batch(1, names.size());
    for (const std::string& name : names) {
        arguments.request(name);
    }
    arguments.log(questionOf(algorithm, key, decision));
    Command command = {"EVALSHA", std::string(scriptSha(algorithm)), std::to_string(words.keys.size())};
    command.insert(command.end(), words.keys.begin(), words.keys.end());
    command.insert(command.end(), words.arguments.begin(), words.arguments.end());
    return command;
}

std::int64_t admittedIn(ReplyView reply, Algorithm algorithm, const Decision& decision, std::size_t requests) {
    const ReplyView answer = checked(checked(reply, "the script")[0], "the script");
    const Check check = questionOf(algorithm, {}, decision);
    BatchReply batch;
    if (answer.raw() == nullptr || batch.read(*answer.raw(), requests, {&check, 1}) != StoreError::None) {
        throw CouldNotAsk("the script answered what it never says");
    }
    return static_cast<std::int64_t>(batch.admitted());
}

void load(Server& server, Algorithm algorithm) {
    const Reply reply = server.ask({"SCRIPT", "LOAD", std::string(scriptSource(algorithm))});
    checked(reply, "SCRIPT LOAD");
    if (reply.text() != scriptSha(algorithm)) {
        throw CouldNotAsk("SCRIPT LOAD answered with another name than the script has");
    }
}

}  // namespace sliding_log::tool
