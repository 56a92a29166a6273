#include "redis/handshake.hpp"

#include "redis/info.hpp"
#include "redis/native_command.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "redis/store_error.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kAuth = "AUTH";
constexpr std::string_view kRole = "ROLE";
constexpr std::string_view kPolicy = "CONFIG GET";
constexpr std::string_view kNative = kNativeCommand;

/// Errors that a server sends to a new connection instead of the first reply, before it closes.
constexpr std::string_view kFarewells[] = {"ERR max number of clients reached",
                                           "ERR max number of clients + cluster connections reached",
                                           "DENIED Redis is running in protected mode"};

std::string_view farewellIn(const redisReply& reply) {
    for (std::string_view each : kFarewells) {
        if (reply.type == REDIS_REPLY_ERROR && replyText(reply).starts_with(each)) {
            return each;
        }
    }
    return {};
}

std::optional<std::string_view> refusalIn(const redisReply& reply) {
    return reply.type == REDIS_REPLY_ERROR ? std::optional(replyText(reply)) : std::nullopt;
}

/// Empty if this is not a reply to ROLE.
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

Handshake::Role Handshake::roleFor(Mode mode) {
    switch (mode) {
        case Mode::Cluster:
            return Role::Any;
        case Mode::Sentinel:
            return Role::Master;
        case Mode::Standalone:
            break;
    }
    return Role::NoReplica;
}

Handshake::Handshake(HandshakeOwner& owner, const RedisSettings& settings)
    : owner_(owner),
      role_(roleFor(static_cast<Mode>(settings.mode))),
      selects_(settings.database != 0),
      native_(static_cast<Native>(settings.native)) {
    if (settings.password.len > 0) {
        steps_.push_back({kAuth.data(), {}});
    }
    if (selects_) {
        steps_.push_back({"SELECT", command({"SELECT", DecimalText(settings.database).view()})});
    }
    if (role_ != Role::Any) {
        steps_.push_back({kRole.data(), command({kRole})});
    }
    steps_.push_back({kPolicy.data(), command({"CONFIG", "GET", "maxmemory-policy"})});
    if (native_ != Native::Off) {
        steps_.push_back({kNative.data(), command({kNative, nameOf(Algorithm::Log), "0", "0"})});
    }
}

void Handshake::begin(Connection& connection, std::string_view authentication) {
    answered_ = 0;
    refused_ = false;
    for (const Step& step : steps_) {
        connection.send(step.name == kAuth ? authentication : step.command, *this);
    }
}

void Handshake::replied(const redisReply* reply) {
    if (reply == nullptr || refused_) {
        return;  // the connection is closing, which is reported to its owner
    }
    if (const std::string_view farewell = farewellIn(*reply); !farewell.empty()) {
        refused_ = true;
        owner_.handshakeRefused(farewell);
        return;
    }
    const Step& step = steps_[answered_++];
    if (const std::optional<std::string_view> refusal = refusalOf(step, *reply)) {
        refuse(step.name, *refusal);
    } else if (answered_ == steps_.size()) {
        owner_.handshakeDone();
    }
}

/// The reason if the server is not accepted; nullopt if it is.
std::optional<std::string_view> Handshake::refusalOf(const Step& step, const redisReply& reply) {
    const std::optional<std::string_view> error = refusalIn(reply);
    if (step.name == kAuth) {
        return error ? std::optional(authenticationRefusal(*error)) : std::nullopt;
    }
    if (error && (error->starts_with("NOAUTH") || classifyError(*error) == StoreError::TryAgain)) {
        return error;
    }
    if (step.name == kRole) {
        return refusalOfRole(reply);
    }
    if (step.name == kPolicy) {
        inspectPolicy(reply);
        return std::nullopt;
    }
    if (step.name == kNative) {
        return refusalOfNative(reply);
    }
    return error;
}

std::optional<std::string_view> Handshake::refusalOfRole(const redisReply& reply) {
    const std::optional<std::string_view> error = refusalIn(reply);
    const std::string_view role = roleIn(reply);
    if (role_ == Role::Master) {
        return error || role == "master" ? error : std::optional(role);
    }
    if (error && classifyError(*error) == StoreError::Forbidden) {
        owner_.roleForbidden(*error);
    }
    if (role == "sentinel") {
        return "sentinel: this is a Sentinel, did you mean \"mode sentinel MASTER\"?";
    }
    return role == "slave" ? std::optional(role) : std::nullopt;
}

void Handshake::refuse(std::string_view step, std::string_view answer) {
    refused_ = true;
    owner_.handshakeRefused(std::string(step).append(" answered: ").append(answer));
}

std::optional<std::string_view> Handshake::refusalOfNative(const redisReply& reply) {
    const std::string_view error = refusalIn(reply).value_or(std::string_view());
    const bool isLoaded = (reply.type == REDIS_REPLY_ARRAY && reply.elements == 0) || isRefusedForNow(error);
    owner_.nativeTold(isLoaded, error);
    return isLoaded || native_ != Native::Required ? std::nullopt : std::optional(error);
}

/// A server that refuses this (managed, ACL) is not asked again.
void Handshake::inspectPolicy(const redisReply& reply) {
    if (reply.type == REDIS_REPLY_ARRAY && reply.elements == 2 && reply.element[1] != nullptr) {
        owner_.policyTold(replyText(*reply.element[1]));
    }
}

}  // namespace sliding_log
