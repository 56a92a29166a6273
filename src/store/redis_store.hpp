// The logs of one sliding_log_redis block as used by one worker: questions in, verdicts out, within a deadline.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "limit/number.hpp"
#include "limit/verdict.hpp"
#include "metrics/board.hpp"
#include "redis/backoff.hpp"
#include "redis/posted.hpp"
#include "redis/reply.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"
#include "store/call.hpp"
#include "store/cluster.hpp"
#include "store/denials.hpp"
#include "store/group.hpp"
#include "store/loners.hpp"
#include "store/node.hpp"
#include "store/orphan.hpp"
#include "store/owed.hpp"
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

    /// Connects before the first question.
    void start();

    /// To be called about once a second: frees unused objects. Returns how many, and how many requests wait.
    std::size_t tick();

    enum class Reception {
        Pending,      // the waiter is woken with the answer, at most `timeout` later
        KnownDenied,  // the verdicts are set: there is a known denial
        Unavailable,  // the store is unavailable
        Apart         // these limits have to be asked one by one
    };

    /// Asks limits of one request, all or nothing; all of one algorithm, in a cluster of one slot. The waiter is woken
    /// only if the result is Pending, never before the return. `unique` is a name that no other request has; `leftMs`:
    /// how long the request may still wait. Questions, name and waiter must live until the waiter is woken or forget()
    /// is called.
    Reception ask(std::span<const Question> questions, std::string_view unique, ngx_msec_t leftMs, Waiter& waiter);

    /// True if its server is connected and has answered all questions in time.
    bool isWell(std::uint16_t slot);

    /// The known denial of these questions; unless it is None, the verdicts are set.
    Belief known(std::span<const Question> questions, std::span<Verdict> verdicts);

    /// Like forget() of the waiter, but what was logged is taken back when the reply arrives: all of it if it was a
    /// reservation, otherwise of the questions with leavesWithClient.
    void abandon(Waiter& waiter);

    /// Takes back what an ask() with this unique name, whose waiter was woken with an error, has logged or will log. If
    /// this cannot be known, and entries have no names, it counts as lost.
    void takeBackLate(Late& late, std::span<const Question> questions, std::string_view unique);

    /// Takes back what an ask() with this unique name logged, at the time that its waiter got, and ends blocks that
    /// have no reason any more; `takenMs`: when it was decided, which is before that time if the request was held. No
    /// request waits for it, but a worker that quits does, for `timeout`. If Redis cannot do it now, it is kept and
    /// done later; lost take-backs are counted and logged.
    void takeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                  std::uint64_t takenMs);

  private:
    NodeCounters& counters(std::string_view node) override { return board_.node(view(settings_.name), node); }
    void answered(Call& call, const redisReply& reply, StoreError error) override;
    void lost(Call& call) override;
    void nodeReady(Node& node) override;
    void nodeDown(Node& node) override;
    void nodeLeaves(Node& node) override;
    void mapChanged() override;
    void workerQuits() override;
    bool isLeaving() const override { return quitting_ && deadlines_.isEmpty() && !isOwing() && !dying_; }

    NodeCounters& countersOf(std::uint16_t slot);
    bool isTurnedAway(std::uint16_t slot);
    bool areApart(std::span<const Question> questions) const;
    bool goesAlone(Group& group);
    const Signature& signatureOf(std::span<const Question> questions);
    Group& groupFor(std::span<const Question> questions, const Signature& signature);
    Group& newGroup(std::span<const Question> questions, const Signature& signature);
    void open(Group& group);
    void openAgain(List<Group, Opened>& groups);
    Group* nextToSend(Node& node);
    void flush();
    void flush(Node& node);
    std::string_view stamp();

    void route(Call& call);
    void repeat(Call& call, const redisReply& reply, StoreError error);
    Node* redirectedBy(const redisReply& reply, const Node& from, StoreError error);
    void repeatSoon(Call& call);
    void waitOut(Call& call, std::string_view answer, StoreError error);
    void askApart(Call& call, StoreError error);
    void repeatQueued();

    void answer(Call& call, const redisReply& reply);
    void answer(Node& node, Group& group, const redisReply& reply);
    void tellSkew(const Node& node, Group& group);
    void learn(Group& group);
    void giveBack(Call& call);
    void failed(Call& call, StoreError error);
    void settle(Group& group, StoreError error);
    void refuse(Group& group, StoreError error);
    void retire(Group& group);
    void expire();
    void watch(Waiter& waiter);
    Orphan& orphanOf(Waiter& waiter);
    void wakeUnanswered(Waiter& waiter, StoreError error);
    void bury(Orphan& orphan, StoreError error);
    void takeBackUnseen(std::span<const Question> questions, std::string_view unique);
    Call& newTakeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                      std::uint64_t takenMs, std::int64_t aheadMs);

    void owe();
    bool isOwing() const;
    void noteQuit();
    void tryToQuit();
    Node* nodeFor(const Call& call);
    void sendTakeBack(Node& node, Call& call);
    void keep(Call& call);
    void repaySoon();
    void repay();
    void repay(Node& node);
    static void backFrom(Node& node, Call& call);
    void takenBack(Call& call, const redisReply& reply, StoreError error);
    void loseKept(std::string_view why);
    void loseTakeBack(Call& call, std::string_view why);
    void tellLost(std::uint16_t slot, std::string_view why);
    void closeWhenUnused();

    const RedisSettings& settings_;
    const std::uint64_t identity_;  // for signatures
    StoreLog log_;
    Board board_;
    NodeCounters& unplacedCounters_;  // for requests whose server is not known
    bool quitting_ = false;           // the worker finishes its requests
    bool dying_ = false;              // only final reports of the nodes arrive
    std::size_t takeBacks_ = 0;       // not executed by Redis yet
    ngx_msec_t owedUntil_ = 0;        // a worker that quits waits for them until then

    Recycler<Call> calls_;
    Recycler<Group> groupObjects_;
    Recycler<Orphan> orphans_;
    Groups groups_;                 // current groups
    List<Group, Opened> unplaced_;  // until their node is known
    List<Call, Queued> queued_;     // to be repeated in a moment
    Owed owed_;
    List<Waiter, WithDeadline> deadlines_;  // the first expires first
    CallWriter writer_;
    GroupReply reply_;  // the reply that is being processed
    Denials denials_;
    Refusals refusals_;
    Loners loners_;
    Signature latestSignature_;  // made by signatureOf(), for its memory
    DecimalText now_{0};         // of the latest stamp()

    Posted flush_;
    Timer deadline_;
    Timer repeat_;
    Backoff repayAfter_;
    Timer repay_;
    Timer owing_;  // delays a worker that quits

    std::unique_ptr<Topology> topology_;  // last, so that it is destroyed first: its nodes report the calls
};

}  // namespace sliding_log
