#include "redis/greeting.hpp"

#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "redis/scripts.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kAuth = "AUTH";
constexpr std::string_view kPolicy = "CONFIG GET";

}  // namespace

Greeting::Greeting(GreetingOwner& owner, const GreetingSettings& settings) : owner_(owner) {
    if (!settings.username.empty()) {
        steps_.push_back({"AUTH", command({kAuth, settings.username, settings.password})});
    } else if (!settings.password.empty()) {
        steps_.push_back({"AUTH", command({kAuth, settings.password})});
    }
    if (settings.database != 0) {
        steps_.push_back({"SELECT", command({"SELECT", DecimalText(settings.database).view()})});
    }
    for (Script script : kScripts) {
        steps_.push_back({"SCRIPT LOAD", command({"SCRIPT", "LOAD", scriptSource(script)})});
    }
    steps_.push_back({kPolicy.data(), command({"CONFIG", "GET", "maxmemory-policy"})});
}

void Greeting::begin(Connection& connection) {
    answered_ = 0;
    refused_ = false;
    for (const Step& step : steps_) {
        connection.send(step.command, *this);
    }
}

void Greeting::replied(const redisReply* reply) {
    if (reply == nullptr || refused_) {
        return;  // the connection is closing, and its owner is told so
    }
    const Step& step = steps_[answered_++];
    if (step.name == kPolicy) {
        inspectPolicy(*reply);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        refused_ = true;
        std::string_view message = replyText(*reply);
        if (step.name == kAuth) {
            // the rest could quote the command, and with it the password
            message = message.substr(0, message.find(' '));
        }
        owner_.greetingRefused(std::string(step.name).append(" answered: ").append(message));
        return;
    }
    if (answered_ == steps_.size()) {
        owner_.greeted();
    }
}

/// A server that does not tell (managed, ACL) is not asked again: this step never refuses.
void Greeting::inspectPolicy(const redisReply& reply) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2 || reply.element[1] == nullptr) {
        return;
    }
    const std::string_view policy = replyText(*reply.element[1]);
    if (policy.starts_with("allkeys-")) {
        owner_.evictionUnsafe(policy);
    }
}

}  // namespace sliding_log
