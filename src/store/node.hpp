// One Redis server, seen from one worker: its connection, how well it is, and the calls on their way to it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "metrics/counters.hpp"
#include "redis/backoff.hpp"
#include "redis/connection.hpp"
#include "redis/greeting.hpp"
#include "redis/locator.hpp"
#include "redis/scripts.hpp"
#include "redis/store_error.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"
#include "store/call.hpp"
#include "store/store_log.hpp"

namespace sliding_log {

class Node;

class NodeOwner {
  public:
    /// The counters of its server of that name.
    virtual NodeCounters& counters(std::string_view node) = 0;

    /// The call's reply, and what keeps it from being decided (None: nothing). The call is the owner's again.
    virtual void answered(Call& call, const redisReply& reply, StoreError error) = 0;

    /// No reply will come. The call is the owner's again.
    virtual void lost(Call& call) = 0;

    /// Calls leave at once from now on.
    virtual void nodeReady(Node& node) = 0;

    /// No call can be sent for a while, and those that waited for the connection are lost.
    virtual void nodeDown(Node& node) = 0;

    /// The worker was told to quit; said again when a connection is gone while it does.
    virtual void workerQuits() = 0;

    /// True when the worker quits and nobody waits for an answer: a lost connection is not made again.
    virtual bool isLeaving() const = 0;

  protected:
    ~NodeOwner() = default;
};

/// Life: Idle -> Connecting -> Greeting -> Ready; Down after a failure, until the back-off timer connects again. While
/// the server is taken to be well (at start, and when it closed a connection that had worked) calls wait for the
/// connection inside their deadline, and leave in one write with the greeting, whose answers come before theirs: what a
/// server says that does not pass is not looked at. After a failure they are refused at once until a probe is answered
/// in time. When another server has taken its place it is Leaving until the calls on the wire are answered, and then
/// connects to that one.
class Node final : ConnectionOwner, GreetingOwner, LocatorTarget {
  public:
    /// `name`: for messages. The locator says where to connect to.
    Node(NodeOwner& owner, StoreLog& log, const RedisSettings& settings, std::string_view name,
         std::unique_ptr<Locator> locator);
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    void connect();
    void connectIfIdle();

    /// True when a call given now is sent now, or as soon as the server is connected, which it is expected to be.
    bool canBeAsked();

    /// True when a call given now is sent now.
    bool isReady() const { return state_ == State::Ready || state_ == State::Greeting; }
    bool isDown() const { return state_ == State::Down; }

    /// True when it is ready and has answered on this connection.
    bool hasAnswered() const { return state_ == State::Ready; }

    /// True when it is ready and has let no request wait in vain since it last answered one in time.
    bool isWell() const { return state_ == State::Ready && timeouts_ == 0; }

    /// Sends the call, or keeps it until there is a connection; the owner is told of its end. Its memory is the
    /// owner's, who leaves it alone until then.
    void send(Call& call);

    /// Sends a command that is no call; false when there is no connection. The target is called once.
    bool send(std::string_view command, ReplyTarget& target);

    /// It takes no writes: the server that does is looked for, and gets the calls from now on. Where that one takes
    /// none either, on_error decides until another attempt.
    void leave();

    /// Its name leads to another server: that one is connected to, and gets the calls from now on.
    void hasMoved(std::string_view reason) override;

    /// A request that was asked at `askedAt` got no answer in time.
    void timedOut(ngx_msec_t askedAt);

    /// Gives the connection up after several timeouts in a row; until a probe is answered nothing waits for it. Nor for
    /// one that is not ready within a request's timeout.
    void giveUpIfSilent();

    /// It said what the scripts never say: replies may be out of step with calls, so no other one of this connection is
    /// believed.
    void distrust();

    /// Closes the connection when no reply is owed.
    void closeIfUnused();

    /// A call that waits for the connection, taken back; nullptr when there is none.
    Call* takeQueued() { return queued_.popFront(); }

    /// Groups to be sent in its next calls: the owner's.
    List<Group, Opened>& groups() { return groups_; }

    /// Take-backs that it was owed while it was away, to be sent as it answers those that were, and the number of
    /// these: the owner's.
    List<Call, Queued>& owed() { return owed_; }
    std::size_t& repaying() { return repaying_; }

    std::string_view name() const { return name_; }

    /// As messages call it: where it is, for a master that Sentinels name.
    std::string_view shownName() const { return shownName_; }
    NodeCounters& counters() { return counters_; }

    /// To be called every second or so: tells of the server's state, and asks for its health when that is due.
    void tick();

  private:
    friend struct Call;
    enum class State { Idle, Connecting, Greeting, Ready, Leaving, Down };

    /// Takes the replies to SCRIPT LOAD after a NOSCRIPT, and to ASKING.
    struct Prepared final : ReplyTarget {
        explicit Prepared(Node& owner) : node(owner) {}
        void replied(const redisReply* reply) override;
        Node& node;
    };

    /// Takes the answer to a call for no log, the first on a connection to a server that was in trouble. It writes
    /// nothing, so it need not wait for the greeting's answers.
    struct Probe final : ReplyTarget {
        explicit Probe(Node& owner) : node(owner) {}
        void replied(const redisReply* reply) override;
        Node& node;
    };

    void located(const Endpoint& endpoint) override;
    void notLocated(std::string_view reason) override { becomeDown(reason); }
    void connected() override;
    void disconnected(std::string_view reason) override;
    void workerQuits() override { owner_.workerQuits(); }
    void greeted() override;
    void greetingRefused(std::string_view reason) override { connection_.close(reason); }
    void policyTold(std::string_view policy) override;
    void roleForbidden(std::string_view answer) override { log_.roleForbidden(shownName_, answer); }

    /// Takes the answer to INFO.
    struct HealthCheck final : ReplyTarget {
        explicit HealthCheck(Node& owner) : node(owner) {}
        void replied(const redisReply* reply) override;
        Node& node;
    };

    void see(Seen what);
    void askForHealth();
    void replied(Call& call, const redisReply* reply);
    void probe();
    void becomeReady();
    void becomeDown(std::string_view reason);
    void beLeaving();
    void closeIfLeft();
    void loseQueued();
    void sendQueued();
    std::string_view whyNoAnswer() const;
    void repeatWithScript(Call& call);
    bool isInTime(const Call& call, std::uint64_t tookNs) const;

    NodeOwner& owner_;
    StoreLog& log_;
    const RedisSettings& settings_;
    std::string name_;
    std::string shownName_;
    std::unique_ptr<Locator> locator_;
    NodeCounters& counters_;
    Greeting greeting_;
    Prepared prepared_{*this};
    Probe probe_{*this};
    HealthCheck healthCheck_{*this};
    ngx_msec_t probedAt_ = 0;
    bool probed_ = false;  // on this connection
    Backoff backoff_;
    State state_ = State::Idle;
    bool trusted_ = true;         // the server was well when last seen
    bool moved_ = false;          // another server has taken its place, as the locator says: that one is next
    bool refusesWrites_ = false;  // it did so, and has taken none since
    ngx_msec_t readySince_ = 0;
    ngx_msec_t unreadySince_ = 0;  // while it is Connecting, Greeting or Leaving

    List<Group, Opened> groups_;
    List<Call, Queued> owed_;
    std::size_t repaying_ = 0;
    List<Call, Queued> queued_;  // to be sent when there is a connection, or when a script may be there
    std::uint64_t sent_ = 0;
    std::array<std::uint64_t, kScripts.size()> loadedAt_{};  // by script: sent_ when it was last loaded
    unsigned timeouts_ = 0;                                  // in a row, no answer in time between them
    ngx_msec_t silentSince_ = 0;                             // when the first of them was asked
    std::string notYet_;      // the latest answer where that was one to ask again after, else empty
    std::string policyTold_;  // that was warned of; empty: none
    ngx_msec_t policyToldAt_ = 0;

    Timer connectDeadline_;
    Timer reconnect_;
    Timer scriptWait_;

    Connection connection_;  // last, so that it dies first: it tells the calls
};

}  // namespace sliding_log
