// Finds a master through its Sentinels, and hears from one of them when another server takes its place.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/addresses.hpp"
#include "redis/backoff.hpp"
#include "redis/connection.hpp"
#include "redis/locator.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// The Sentinels are asked in turn until one knows the master. With that one the connection stays, subscribed to
/// +switch-master and, where the user may, +promoted-slave since the question, so that no switch falls between the two;
/// when it is lost the next one is asked, and tells what was missed. While there is no Sentinel the master found last
/// is the one: whether it serves is for its own connection to say.
class SentinelLocator final : public Locator, ConnectionOwner, ReplyTarget, LocatorTarget {
  public:
    SentinelLocator(const RedisSettings& settings, ngx_log_t* log);

    void locate(LocatorTarget& target) override;
    void didNotServe() override;
    void stop() override;

  private:
    enum class State {
        Idle,
        Looking,  // for a Sentinel's address, or connecting to it
        Asking,   // where the master is
        Naming,   // which address the master's name has
        Watching  // for a fail-over
    };

    /// Takes what comes on the channels.
    struct Messages final : ReplyTarget {
        explicit Messages(SentinelLocator& owner) : locator(owner) {}
        void replied(const redisReply* message) override;
        SentinelLocator& locator;
    };

    // of the Sentinel, then of the master
    void located(const Endpoint& endpoint) override;
    void notLocated(std::string_view reason) override;
    void hasMoved(std::string_view) override {}

    void connected() override;
    void disconnected(std::string_view reason) override;
    void workerQuits() override;
    void replied(const redisReply* reply) override;

    void begin();
    void ask();
    void tryNext(std::string_view reason);
    void answeredWhere(const redisReply& reply);
    void stopNaming();
    void found(const Endpoint& master);
    void heard(const redisReply& message);
    void doWithoutPromotions(std::string_view refusal);

    const RedisSettings& settings_;
    ngx_log_t* log_;
    std::string authenticate_;  // commands, kept; empty: none
    std::string where_;
    std::vector<std::unique_ptr<Addresses>> sentinels_;
    Messages messages_{*this};
    std::size_t next_ = 0;   // to be asked; of sentinels_, round and round
    std::size_t asked_ = 0;  // the one that is asked, or watched
    std::size_t tried_ = 0;  // in this search
    std::string heard_;      // the latest message
    ngx_msec_t heardAt_ = 0;
    std::string name_;                  // of the master, as told last
    std::unique_ptr<Addresses> named_;  // what that comes to
    State state_ = State::Idle;
    bool restarts_ = false;  // a search begins when the connection is gone
    bool quitting_ = false;
    bool authenticated_ = false;
    bool hearsSwitches_ = false;        // on this connection
    bool hearsPromotions_ = true;       // unless the user may not
    LocatorTarget* waiting_ = nullptr;  // for the search
    LocatorTarget* target_ = nullptr;   // of the latest search, told when the master moves
    std::optional<Endpoint> master_;    // as told last
    Backoff backoff_;
    Timer deadline_;
    Timer again_;
    Connection connection_;
};

}  // namespace sliding_log
