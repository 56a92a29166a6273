// The logs of one sliding_log_redis block, seen from one worker: questions in, verdicts out, inside a deadline.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "conf/settings.hpp"
#include "limit/number.hpp"
#include "limit/verdict.hpp"
#include "metrics/board.hpp"
#include "redis/posted.hpp"
#include "redis/reply.hpp"
#include "redis/timer.hpp"
#include "store/call.hpp"
#include "store/cluster.hpp"
#include "store/denials.hpp"
#include "store/group.hpp"
#include "store/node.hpp"
#include "store/orphan.hpp"
#include "store/recycler.hpp"
#include "store/refusals.hpp"
#include "store/store_log.hpp"
#include "store/topology.hpp"

namespace sliding_log {

class RedisStore final : ClusterOwner {
  public:
    RedisStore(const RedisSettings& settings, Denials denials, const Board& board, ngx_log_t* log);
    ~RedisStore();
    RedisStore(const RedisStore&) = delete;
    RedisStore& operator=(const RedisStore&) = delete;

    /// Connects ahead of the first question.
    void start();

    /// To be called every second or so.
    void tick();

    enum class Reception {
        Pending,      // the answer comes through the waiter, at most `timeout` later
        KnownDenied,  // the verdicts are there: the node knows of a denial that lasts
        Unavailable   // the store cannot be asked now
    };

    /// Asks all the limits of one request, all or nothing; all of
    /// one algorithm, and in a cluster of one slot. The waiter is woken only when the answer is Pending, never before
    /// the return. `unique` is a name no other request has; `waitedMs`: what the request has spent of its `timeout` on
    /// other stores. Questions, name and waiter live until the waiter is woken or forgets.
    Reception ask(std::span<const Question> questions, std::string_view unique, ngx_msec_t waitedMs, Waiter& waiter);

    /// What the node knows of them without asking; unless it is None, the verdicts are there.
    Belief known(std::span<const Question> questions, std::span<Verdict> verdicts);

    /// As the waiter's forget(); but when the answer comes, what it logged is taken back: all of it where it reserved a
    /// slot, else of the questions with leavesWithClient.
    void abandon(Waiter& waiter);

    /// Takes back what an ask() with this unique name logged, at the time its waiter was told, and ends the blocks that
    /// this leaves without a reason; `takenMs`: when it was decided, which is before that time where it was held. No
    /// request waits for it, but a worker that quits does, for `timeout`; what does not reach Redis is counted and
    /// told.
    void takeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                  std::uint64_t takenMs);

  private:
    NodeCounters& counters(std::string_view node) override { return board_.node(view(settings_.name), node); }
    void answered(Call& call, const redisReply& reply, StoreError error) override;
    void lost(Call& call) override { failed(call, StoreError::Down); }
    void nodeReady(Node& node) override;
    void nodeDown(Node& node) override;
    void nodeLeaves(Node& node) override;
    void mapChanged() override;
    void workerQuits() override;
    bool isLeaving() const override { return quitting_ && deadlines_.isEmpty() && !isOwing() && !dying_; }

    NodeCounters& countersOf(std::uint16_t slot);
    bool isTurnedAway(std::uint16_t slot);
    Group& groupFor(std::span<const Question> questions);
    Group& newGroup(std::span<const Question> questions);
    void open(Group& group);
    void openAgain(List<Group, Opened>& groups);
    Group* nextToSend(Node& node);
    void flush();
    void flush(Node& node);
    std::string_view stamp();

    void route(Call& call);
    void repeat(Call& call, const redisReply& reply, StoreError error);
    void repeatSoon(Call& call);
    void waitOut(Call& call, std::string_view answer, StoreError error);
    void askApart(Call& call);
    void repeatQueued();

    void answer(Call& call, const redisReply& reply);
    void answer(Node& node, Group& group, const redisReply& reply);
    void tellSkew(const Node& node, Group& group);
    void learn(Group& group);
    void giveBack(Call& call);
    void failed(Call& call, StoreError error);
    void settle(Group& group, StoreError error);
    void retire(Group& group);
    void expire();
    void watch(Waiter& waiter);
    void buryOrphan(Orphan& orphan, StoreError error);
    void owe();
    void tryToQuit();
    void loseTakeBack(const Call& call);
    bool isOwing() const;
    void closeWhenUnused();

    const RedisSettings& settings_;
    const std::uint64_t identity_;  // for signatures
    StoreLog log_;
    Board board_;
    NodeCounters& unplacedCounters_;  // for what no server is known
    bool quitting_ = false;           // the worker finishes what it holds
    bool dying_ = false;              // only the nodes' last words come
    std::size_t owed_ = 0;            // take-backs on their way
    ngx_msec_t owedUntil_ = 0;        // a worker that quits waits for them so long

    Recycler<Call> calls_;
    Recycler<Group> groupObjects_;
    Recycler<Orphan> orphans_;
    Groups groups_;                         // under way
    List<Group, Opened> unplaced_;          // until it is known which node serves them
    List<Call, Queued> queued_;             // to be sent again in a moment
    List<Waiter, WithDeadline> deadlines_;  // the first expires first
    CallWriter writer_;
    GroupReply reply_;  // that is being answered
    Denials denials_;
    Refusals refusals_;
    Signature signature_;  // of the questions at hand
    DecimalText now_{0};   // of the latest stamp()

    Posted flush_;
    Timer deadline_;
    Timer repeat_;
    Timer owing_;  // keeps a worker that quits

    std::unique_ptr<Topology> topology_;  // last, so that it dies first: its nodes tell the calls
};

}  // namespace sliding_log
