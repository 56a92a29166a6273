// What is said on a new connection before the first question: AUTH, SELECT, ROLE, SCRIPT LOAD, and a look at the
// policy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "redis/connection.hpp"

namespace sliding_log {

struct GreetingSettings {
    std::string username;
    std::string password;
    std::int64_t database = 0;
    bool master = false;  // no other server will do
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

    /// The server may evict live logs under this maxmemory-policy.
    virtual void evictionUnsafe(std::string_view policy) = 0;

  protected:
    ~GreetingOwner() = default;
};

/// The steps are sent at once and answered in order. One Greeting serves its connection again after each connect.
class Greeting final : ReplyTarget {
  public:
    Greeting(GreetingOwner& owner, const GreetingSettings& settings);

    void begin(Connection& connection);

  private:
    struct Step {
        const char* name;
        std::string command;
    };

    void replied(const redisReply* reply) override;
    void inspectPolicy(const redisReply& reply);
    void refuse(std::string_view step, std::string_view answer);

    GreetingOwner& owner_;
    std::vector<Step> steps_;
    std::size_t answered_ = 0;
    bool refused_ = false;
};

}  // namespace sliding_log
