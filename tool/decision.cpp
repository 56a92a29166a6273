#include "decision.hpp"

#include "failure.hpp"
#include "forms.hpp"
#include "limit/options_text.hpp"
#include "redis/scripts.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::int64_t kUsualSample = 10;  // sample= by default

}  // namespace

Command decide(Algorithm algorithm, const std::string& key, const Decision& decision,
               std::span<const std::string> names) {
    Question question;
    question.algorithm = algorithm;
    question.burst = decision.limit;
    question.sample = kUsualSample;
    Command command = {"EVALSHA", std::string(scriptSha(algorithm)), "1", key};
    command.push_back(std::to_string(decision.nowMs));
    command.emplace_back("1");  // log
    command.push_back(std::to_string(names.size()));
    command.insert(command.end(), names.begin(), names.end());
    command.push_back(std::to_string(decision.limit));
    command.push_back(std::to_string(decision.windowMs));
    command.emplace_back("0");  // no cap
    command.push_back(std::to_string(decision.ttlMs));
    command.emplace_back(OptionsText(question).view());
    return command;
}

std::int64_t admittedIn(ReplyView reply) {
    const ReplyView group = checked(checked(reply, "the script")[0], "the script");
    const std::optional<std::int64_t> admitted = group[0].number();
    if (!admitted) {
        throw CouldNotAsk("the script answered in a shape that it never gives");
    }
    return *admitted;
}

void load(Server& server, Algorithm algorithm) {
    const Reply reply = server.ask({"SCRIPT", "LOAD", std::string(scriptSource(algorithm))});
    checked(reply, "SCRIPT LOAD");
    if (reply.text() != scriptSha(algorithm)) {
        throw CouldNotAsk("SCRIPT LOAD answered with another name than the script has");
    }
}

}  // namespace sliding_log::tool
