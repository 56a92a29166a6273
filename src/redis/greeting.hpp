// What is said on a new connection before the first question: AUTH, SELECT, ROLE, and a look at the policy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/connection.hpp"

namespace sliding_log {

/// Which servers will do, by what they answer to ROLE.
enum class Role {
    Any,        // it is not asked
    NoReplica,  // one that says it is a replica will not; one that does not tell may do
    Master      // no other
};

struct GreetingSettings {
    std::string username;
    std::string password;
    std::int64_t database = 0;
    Role role = Role::Any;
};

/// AUTH as a command; empty where there is no password.
std::string authentication(std::string_view username, std::string_view password);

/// What may be told of a refused AUTH: the rest could quote the command, and with it the password.
std::string_view authenticationRefusal(std::string_view message);

class GreetingOwner {
  public:
    /// Every step was answered well.
    virtual void greeted() = 0;

    /// A step was refused; the reason names it and holds no secret. The owner closes the connection.
    virtual void greetingRefused(std::string_view reason) = 0;

    /// The server's maxmemory-policy, where it tells.
    virtual void policyTold(std::string_view policy) = 0;

    /// The user may not ask for ROLE, which is done without.
    virtual void roleForbidden(std::string_view answer) = 0;

  protected:
    ~GreetingOwner() = default;
};

/// The steps are sent at once and answered in order. One Greeting serves its connection again after each connect.
class Greeting final : ReplyTarget {
  public:
    Greeting(GreetingOwner& owner, const GreetingSettings& settings);

    void begin(Connection& connection);

    /// True when calls may be sent right behind the steps: where one is refused no harm is done, since the server
    /// refuses the calls as well, or logs requests once that are decided without it. Not where the database has to be
    /// selected: they might be logged in another one.
    bool letsCallsFollow() const { return !selects_; }

  private:
    struct Step {
        const char* name;
        std::string command;
    };

    void replied(const redisReply* reply) override;
    std::optional<std::string_view> refusalOf(const Step& step, const redisReply& reply);
    std::optional<std::string_view> refusalOfRole(const redisReply& reply);
    void inspectPolicy(const redisReply& reply);
    void refuse(std::string_view step, std::string_view answer);

    GreetingOwner& owner_;
    Role role_;
    bool selects_;
    std::vector<Step> steps_;
    std::size_t answered_ = 0;
    bool refused_ = false;
};

}  // namespace sliding_log
