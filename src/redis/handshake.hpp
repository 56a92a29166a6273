// The commands on a new connection before the first call: AUTH, SELECT, ROLE, CONFIG GET maxmemory-policy, and a call
// of the native module without logs, which tells whether that is loaded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/connection.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// AUTH as a command; empty without a password.
std::string authentication(std::string_view username, std::string_view password);

/// The part of the reply to a refused AUTH that may be logged: the rest could quote the command with the password.
std::string_view authenticationRefusal(std::string_view message);

class HandshakeOwner {
  public:
    /// Every step has succeeded.
    virtual void handshakeDone() = 0;

    /// A step was refused; the reason names it and contains no secret. The owner closes the connection.
    virtual void handshakeRefused(std::string_view reason) = 0;

    /// The maxmemory-policy of the server, if it is permitted to read it.
    virtual void policyTold(std::string_view policy) = 0;

    /// The server has the native module, and this user may use it; or not: then the error.
    virtual void nativeTold(bool isLoaded, std::string_view answer) = 0;

    /// ROLE is not permitted; the handshake continues without it.
    virtual void roleForbidden(std::string_view answer) = 0;

  protected:
    ~HandshakeOwner() = default;
};

/// The steps are sent at once and answered in order. A Handshake is reused after each connect of its connection.
class Handshake final : ReplyTarget {
  public:
    Handshake(HandshakeOwner& owner, const RedisSettings& settings);

    /// `authentication`: the AUTH command, if it authenticates.
    void begin(Connection& connection, std::string_view authentication);

    /// True if calls may be sent directly after the steps: if a step is refused, the server refuses the calls as well,
    /// or logs requests that are decided without it, once. False if a database has to be selected, since calls might be
    /// logged in another one, or if the native module is required.
    bool letsCallsFollow() const { return !selects_ && native_ != Native::Required; }

  private:
    /// Which servers are accepted, by their reply to ROLE.
    enum class Role {
        Any,        // ROLE is not sent
        NoReplica,  // not a replica; accepted if ROLE is refused
        Master      // only a master
    };

    struct Step {
        const char* name;
        std::string command;
    };

    static Role roleFor(Mode mode);
    void replied(const redisReply* reply) override;
    std::optional<std::string_view> refusalOf(const Step& step, const redisReply& reply);
    std::optional<std::string_view> refusalOfRole(const redisReply& reply);
    void inspectPolicy(const redisReply& reply);
    std::optional<std::string_view> refusalOfNative(const redisReply& reply);
    void refuse(std::string_view step, std::string_view answer);

    HandshakeOwner& owner_;
    Role role_;
    bool selects_;
    Native native_;
    std::vector<Step> steps_;
    std::size_t answered_ = 0;
    bool refused_ = false;
};

}  // namespace sliding_log
