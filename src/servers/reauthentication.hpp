// AUTH on an open connection when there is another password. If that is refused, Redis leaves the connection
// authenticated as it was.
#pragma once

#include <cstdint>
#include <string_view>

#include "redis/connection.hpp"
#include "redis/credentials.hpp"

namespace sliding_log {

class ReauthenticationOwner {
  public:
    /// The reply to AUTH: accepted, and again() may be called; or the refusal, without secrets.
    virtual void authenticatedAgain() = 0;
    virtual void authenticationRefused(std::string_view answer) = 0;

  protected:
    ~ReauthenticationOwner() = default;
};

class Reauthentication final : ReplyTarget {
  public:
    Reauthentication(ReauthenticationOwner& owner, Connection& connection) : owner_(owner), connection_(connection) {}

    /// The handshake of a new connection authenticates with this version of the password.
    void begin(std::uint64_t version) { accepted_ = version; }

    /// The connection has ended.
    void end() { accepted_ = sent_ = 0; }

    /// Sends AUTH, unless the connection has this password, has not begun, or waits for the reply to another AUTH.
    void again(const Credentials& credentials);

  private:
    /// To AUTH.
    void replied(const redisReply* reply) override;

    ReauthenticationOwner& owner_;
    Connection& connection_;
    std::uint64_t accepted_ = 0;  // the version that this connection was authenticated with; 0: none yet
    std::uint64_t sent_ = 0;      // the version that is on its way; 0: none
};

}  // namespace sliding_log
