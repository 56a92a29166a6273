// The logs of one sliding_log_redis block, seen from one worker: questions in, verdicts out, inside a deadline.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/settings.hpp"
#include "limit/verdict.hpp"
#include "redis/backoff.hpp"
#include "redis/connection.hpp"
#include "redis/greeting.hpp"
#include "redis/posted.hpp"
#include "redis/timer.hpp"
#include "store/call.hpp"
#include "store/denials.hpp"
#include "store/group.hpp"
#include "store/log_throttle.hpp"
#include "store/recycler.hpp"

namespace sliding_log {

/// Life: Idle -> Connecting -> Ready; Down after a failure, until the back-off timer connects again. While the
/// server is taken to be well (at start, and when it closed a connection that had worked) questions wait for the
/// connection inside their deadline; after a failure they are refused at once until a connect succeeds.
class RedisStore final : ConnectionOwner, GreetingOwner {
  public:
    RedisStore(const RedisSettings& settings, Denials denials, ngx_log_t* log);
    ~RedisStore();
    RedisStore(const RedisStore&) = delete;
    RedisStore& operator=(const RedisStore&) = delete;

    /// Connects ahead of the first question.
    void start();

    enum class Reception {
        Pending,      // the answer comes through the waiter, at most `timeout` later
        KnownDenied,  // the verdicts are there: the node knows of a denial that lasts
        Unavailable   // the store cannot be asked now
    };

    /// Asks all the limits of one request, all or nothing. The waiter is woken only when the answer is Pending, never
    /// before the return. `unique` is a name no other request has; `waitedMs`: what the request has spent of its
    /// `timeout` on other stores. Questions, name and waiter live until the waiter is woken or forgets.
    Reception ask(std::span<const Question> questions, std::string_view unique, ngx_msec_t waitedMs, Waiter& waiter);

    /// Takes back what an ask() with this unique name logged. Nobody waits for it.
    void takeBack(std::span<const Question> questions, std::string_view unique);

  private:
    friend struct Call;
    enum class State { Idle, Connecting, Ready, Down };

    /// Takes the replies to SCRIPT LOAD after a NOSCRIPT.
    struct ScriptsReloaded final : ReplyTarget {
        explicit ScriptsReloaded(RedisStore& owner) : store(owner) {}
        void replied(const redisReply* reply) override;
        RedisStore& store;
    };

    void connected() override;
    void disconnected(std::string_view reason) override;
    void workerQuits() override;
    void greeted() override;
    void greetingRefused(std::string_view reason) override;
    void evictionUnsafe(std::string_view policy) override;

    bool canBeAsked();
    void connect();
    void becomeDown(std::string_view reason);

    void sign(std::span<const Question> questions);
    Group& groupFor(std::size_t logs);
    Group& newGroup(std::size_t logs);
    void open(Group& group);
    void flush();
    void fill(Call& call);
    void appendGroup(Group& group);
    void dispatch(Call& call);
    void replied(Call& call, const redisReply* reply);
    void answer(Call& call, const redisReply& reply);
    void answer(Group& group, const redisReply& reply);
    void keepDenial(Group& group);
    bool isWaitedFor(const Call& call) const;
    void repeatWithScript(Call& call);
    void repeatSoon(Call& call);
    void repeatQueued();
    void settle(Call& call, StoreError error);
    void settle(Group& group, StoreError error);
    void retire(Group& group);
    void expire();
    void closeWhenUnused();
    void report(ngx_uint_t level, const char* what, std::string_view cause);

    const RedisSettings& settings_;
    ngx_log_t* log_;
    std::vector<Endpoint> endpoints_;
    std::size_t endpoint_ = 0;
    Greeting greeting_;
    ScriptsReloaded scriptsReloaded_{*this};
    Backoff backoff_;
    State state_ = State::Idle;
    bool trusted_ = true;    // the server was well when last seen
    bool quitting_ = false;  // the worker finishes what it holds
    ngx_msec_t readySince_ = 0;

    Recycler<Call> calls_;
    Recycler<Group> groupObjects_;
    Groups groups_;                         // under way
    List<Group, Opened> opened_;            // to be sent at the end of this turn, or when there is a connection
    List<Waiter, WithDeadline> deadlines_;  // the first expires first
    List<Call, Queued> queued_;             // to be sent again in a moment
    Denials denials_;
    std::string signature_;  // of the questions at hand; these three strings keep their memory
    std::size_t hash_ = 0;   // of signature_
    std::string keys_;       // of the call that is being built
    std::string arguments_;
    std::size_t keyCount_ = 0;
    std::size_t argumentCount_ = 0;
    std::uint64_t sent_ = 0;
    std::uint64_t scriptsSent_ = 0;  // value of sent_ when the scripts were last loaded
    unsigned timeouts_ = 0;          // in a row, no answer between them
    ngx_msec_t silentSince_ = 0;     // when the first of them was asked

    Posted flush_;
    Timer deadline_;
    Timer connectDeadline_;
    Timer reconnect_;
    Timer repeat_;
    LogThrottle throttle_;    // of troubles
    LogThrottle recoveries_;  // of the lines that tell of their end

    Connection connection_;  // last, so that it dies first: it tells the calls
};

}  // namespace sliding_log
