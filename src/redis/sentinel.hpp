// Finds a master through its Sentinels, and is notified by one of them when another server takes its place.
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
#include "redis/discovery.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// The Sentinels are asked in turn until one knows the master. The connection to this Sentinel stays open, subscribed
/// to +switch-master and, if permitted, +promoted-slave since it was asked, so that no switch is missed; when it is
/// lost, the next Sentinel is asked, and knows what was missed. If no Sentinel is available, the last known master is
/// used; its own connection finds out whether it still is a master.
class SentinelDiscovery final : public Discovery, ConnectionOwner, ReplyTarget, DiscoveryTarget {
  public:
    SentinelDiscovery(const RedisSettings& settings, ngx_log_t* log);

    void discover(DiscoveryTarget& target) override;
    void didNotServe() override;
    void stop() override;

  private:
    enum class State {
        Idle,
        Looking,  // for the address of a Sentinel, or connecting to it
        Asking,   // for the address of the master
        Naming,   // resolving the name of the master
        Watching  // for a fail-over
    };

    /// Receives the messages of the channels.
    struct Messages final : ReplyTarget {
        explicit Messages(SentinelDiscovery& owner) : discovery(owner) {}
        void replied(const redisReply* message) override;
        SentinelDiscovery& discovery;
    };

    // first of the Sentinel, then of the master
    void discovered(const Endpoint& endpoint) override;
    void notDiscovered(std::string_view reason) override;
    void hasMoved(std::string_view) override {}

    void connected() override;
    void disconnected(std::string_view reason) override;
    void workerQuits() override;
    void replied(const redisReply* reply) override;

    void begin();
    void ask();
    void addReason(std::string_view reason);
    void tryNext(std::string_view reason);
    void answeredWhere(const redisReply& reply);
    void stopNaming();
    void found(const Endpoint& master);
    void heard(const redisReply& message);
    void doWithoutPromotions(std::string_view refusal);

    const RedisSettings& settings_;
    ngx_log_t* log_;
    std::string authenticate_;  // commands; empty: none
    std::string where_;
    std::vector<std::unique_ptr<Addresses>> sentinels_;
    Messages messages_{*this};
    std::size_t next_ = 0;   // the next one of sentinels_ to be asked, in turn
    std::size_t asked_ = 0;  // the one that is being asked or watched
    std::size_t tried_ = 0;  // number of Sentinels tried in this search
    std::string reasons_;    // why they did not work, each once
    std::string heard_;      // the latest message
    ngx_msec_t heardAt_ = 0;
    std::string name_;                  // the last known name of the master
    std::unique_ptr<Addresses> named_;  // the addresses of that name
    State state_ = State::Idle;
    bool restarts_ = false;  // a search begins when the connection has ended
    bool quitting_ = false;
    bool authenticated_ = false;
    bool hearsSwitches_ = false;          // on this connection
    bool hearsPromotions_ = true;         // unless it is not permitted
    DiscoveryTarget* waiting_ = nullptr;  // waits for the search
    DiscoveryTarget* target_ = nullptr;   // of the latest search, notified when the master moves
    std::optional<Endpoint> master_;      // the last known one
    Backoff backoff_;
    Timer deadline_;
    Timer again_;
    Connection connection_;
};

}  // namespace sliding_log
