#include "redis/greeting.hpp"

#include <utility>

#include "redis/info.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "redis/scripts.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kAuth = "AUTH";
constexpr std::string_view kRole = "ROLE";
constexpr std::string_view kPolicy = "CONFIG GET";

/// Empty for a reply that is none of ROLE's.
std::string_view roleIn(const redisReply& reply) {
    const bool isRole = reply.type == REDIS_REPLY_ARRAY && reply.elements > 0 && reply.element[0] != nullptr;
    return isRole ? replyText(*reply.element[0]) : std::string_view();
}

}  // namespace

std::string authentication(std::string_view username, std::string_view password) {
    if (password.empty()) {
        return {};
    }
    return username.empty() ? command({kAuth, password}) : command({kAuth, username, password});
}

std::string_view authenticationRefusal(std::string_view message) {
    return message.substr(0, message.find(' '));
}

Greeting::Greeting(GreetingOwner& owner, const GreetingSettings& settings) : owner_(owner) {
    if (std::string text = authentication(settings.username, settings.password); !text.empty()) {
        steps_.push_back({kAuth.data(), std::move(text)});
    }
    if (settings.database != 0) {
        steps_.push_back({"SELECT", command({"SELECT", DecimalText(settings.database).view()})});
    }
    if (settings.master) {
        steps_.push_back({kRole.data(), command({kRole})});
    }
    // before the scripts: a server that wants a password calls what is as long as they are a protocol error, not NOAUTH
    steps_.push_back({kPolicy.data(), command({"CONFIG", "GET", "maxmemory-policy"})});
    for (Algorithm algorithm : kScripts) {
        steps_.push_back({"SCRIPT LOAD", command({"SCRIPT", "LOAD", scriptSource(algorithm)})});
    }
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
    if (step.name == kPolicy && !replyText(*reply).starts_with("NOAUTH")) {
        inspectPolicy(*reply);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        const std::string_view message = replyText(*reply);
        refuse(step.name, step.name == kAuth ? authenticationRefusal(message) : message);
        return;
    } else if (step.name == kRole && roleIn(*reply) != "master") {
        refuse(step.name, roleIn(*reply));
        return;
    }
    if (answered_ == steps_.size()) {
        owner_.greeted();
    }
}

void Greeting::refuse(std::string_view step, std::string_view answer) {
    refused_ = true;
    owner_.greetingRefused(std::string(step).append(" answered: ").append(answer));
}

/// A server that does not tell (managed, ACL) is not asked again.
void Greeting::inspectPolicy(const redisReply& reply) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2 || reply.element[1] == nullptr) {
        return;
    }
    const std::string_view policy = replyText(*reply.element[1]);
    if (isEvictionUnsafe(policy)) {
        owner_.evictionUnsafe(policy);
    }
}

}  // namespace sliding_log
