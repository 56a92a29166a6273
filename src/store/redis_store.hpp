// The logs of one sliding_log_redis block as used by one worker: checks in, verdicts out, within a deadline.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "limit/number.hpp"
#include "metrics/counter_registry.hpp"
#include "redis/posted.hpp"
#include "redis/reply.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"
#include "store/batch.hpp"
#include "store/call.hpp"
#include "store/cluster.hpp"
#include "store/isolated_logs.hpp"
#include "store/known_denials.hpp"
#include "store/leases.hpp"
#include "store/local_store.hpp"
#include "store/orphan.hpp"
#include "store/prefetch.hpp"
#include "store/recycler.hpp"
#include "store/refusals.hpp"
#include "store/server.hpp"
#include "store/store_log.hpp"
#include "store/take_backs.hpp"
#include "store/topology.hpp"

namespace sliding_log {

class RedisStore final : ClusterOwner, CredentialsOwner, TakeBacksOwner {
  public:
    RedisStore(const RedisSettings& settings, KnownDenials denials, Permits permits, LocalStore& local,
               const CounterRegistry& registry, ngx_log_t* log);
    ~RedisStore();
    RedisStore(const RedisStore&) = delete;
    RedisStore& operator=(const RedisStore&) = delete;

    /// Connects before the first check.
    void start();

    /// The same for stores with the same logs, also after reloads.
    std::uint64_t identity() const { return identity_; }

    /// A request that waits for a place will ask again: a worker that quits stays connected until letGo().
    void stayConnected() { expected_++; }
    void letGo();

    /// To be called about once a second: frees unused objects. Returns how many, and how many requests wait.
    std::size_t tick();

    enum class Reception {
        Pending,      // the waiter is woken with the result, at most `timeout` later
        KnownDenied,  // the verdicts are set: there is a known denial
        Permitted,    // the verdicts are set: permits of the node were used
        Unavailable,  // the store is unavailable
        Apart         // these limits have to be asked one by one
    };

    /// Asks limits of one request, all or nothing; all of one algorithm, in a cluster of one hash slot. The waiter is
    /// woken only if the result is Pending, never before the return. `unique` is a name that no other request has;
    /// `leftMs`: how long the request may still wait. Checks, name and waiter must live until the waiter is woken or
    /// detached, or cancel() is called.
    Reception ask(std::span<const Check> checks, std::string_view unique, ngx_msec_t leftMs, Waiter& waiter);

    /// True if its server is connected and has answered all checks in time.
    bool isWell(std::uint16_t hashSlot);

    /// True if one server decides both. False if none is known.
    bool haveOneServer(std::uint16_t hashSlot, std::uint16_t other);

    /// False: it is known that it cannot decide.
    bool canBeAsked(std::uint16_t hashSlot) { return topology_->canBeAsked(hashSlot); }

    /// The known denial of these checks; unless it is None, the verdicts are set.
    DenialState known(std::span<const Check> checks, std::span<Verdict> verdicts);

    /// Like Waiter::detach(), but what was logged is taken back when the reply arrives: all of it if it was a
    /// reservation, otherwise of the checks with leavesWithClient.
    void cancel(Waiter& waiter);

    /// Takes back what an ask() with this unique name, whose waiter was woken with an error, has logged or will log. If
    /// this cannot be known, and entries have no names, it counts as lost.
    void takeBackLate(LateReply& late, std::span<const Check> checks, std::string_view unique);

    /// Takes back what a request has logged by this permit.
    void takeBackPermit(const Check& check, const Permit& permit);

    /// Takes back what an ask() with this unique name logged, at the time that its waiter got, and ends blocks that
    /// have no reason any more; of a check that is settled, the difference, which may also be added; `takenMs`: when it
    /// was decided, which is before that time if the request was held. No request waits for it, but a worker that quits
    /// does, as long as Redis executes some within each `timeout`, at most 10 s. If Redis cannot do it now, or has
    /// enough of them to do, it is kept and done later; lost take-backs are counted and logged.
    void takeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                  std::uint64_t takenMs);

    /// The request is under way from now on: its entry is renewed until end(), which gives it back. While Redis is
    /// away, the log of this node has it, if it is to be counted there.
    void begin(Lease& lease);
    void end(Lease& lease);

    /// To be called when Redis could not decide this check, before the log of this node does. With algorithm=inflight
    /// it enters the requests that this worker has under way in that log.
    void countLocally(const Check& decided);

  private:
    ServerCounters& counters(std::string_view server) override {
        return registry_.server(view(settings_.name), server);
    }
    void callReplied(Call& call, const redisReply& reply, StoreError error) override;
    void lost(Call& call) override;
    void serverReady(Server& server) override;
    void serverDown(Server& server) override;
    void serverLeaves(Server& server) override;
    void mapChanged() override;
    void workerQuits() override;
    Credentials& credentials() override { return credentials_; }
    void passwordRead() override;
    bool isLeaving() const override {
        return quitting_ && expected_ == 0 && deadlines_.isEmpty() && leases_.isEmpty() && !takeBacks_.hasAny() &&
               !dying_;
    }
    Topology& topology() override { return *topology_; }
    ServerCounters& countersOf(std::uint16_t hashSlot) override;
    Server* redirectedBy(const redisReply& reply, const Server& from, StoreError error) override;
    std::string_view stamp(Algorithm algorithm) override;
    void flushSoon() override { flush_.post(); }
    bool isQuitting() const override { return quitting_; }
    void closeWhenUnused() override;

    bool isTurnedAway(std::uint16_t hashSlot);
    bool areApart(std::span<const Check> checks) const;
    bool goesAlone(Batch& batch);
    const Signature& signatureOf(std::span<const Check> checks);
    Batch& batchFor(std::span<const Check> checks);
    Batch& newBatch(std::span<const Check> checks, const Signature& signature);
    void open(Batch& batch);
    void openAgain(List<Batch, Opened>& batches);
    Batch* nextToSend(Server& server);
    void denyKnown(Batch& batch);
    void flush();
    void flush(Server& server);

    void route(Call& call);
    void repeat(Call& call, const redisReply& reply, StoreError error);
    void repeatSoon(Call& call);
    void waitOut(Call& call, std::string_view answer, StoreError error);
    void askApart(Call& call, StoreError error);
    bool renew(Batch& batch);
    void readRecord(Batch& batch);
    void recordRead(Call& call, std::string_view record);
    void repeatQueued();

    void applyReply(Call& call, const redisReply& reply);
    void applyReply(Server& server, Batch& batch, const redisReply& reply);
    void tellSkew(const Server& server, Batch& batch);
    void learnPermits(Server& server, const Batch& batch, std::span<const Check> checks);
    void endPermits(bool all);
    void servePermits(Batch& batch);
    void failPermits(Batch& batch);
    void learn(Batch& batch);
    void failed(Call& call, StoreError error);
    void complete(Batch& batch, StoreError error);
    void refuse(Batch& batch, StoreError error);
    void finishBatch(Batch& batch);
    void expire();
    void watch(Waiter& waiter);
    Orphan& orphanOf(Waiter& waiter);
    void wakeWithoutReply(Waiter& waiter, StoreError error);
    void finishOrphan(Orphan& orphan, StoreError error);

    void countLocally();
    void enterLocally(Lease& lease);
    void watchForLocal(std::span<Lease*> leases);
    bool isServed(const Lease& lease);
    void renew(std::span<Lease*> leases);
    void renewLocally(std::span<Lease*> leases);
    void leaveLocally(std::span<Lease*> leases);
    Call& beginRenewal(const Lease& first);
    void send(Server& server, Call& renewal);
    void renewalReplied(Call& call, const redisReply& reply, StoreError error);
    void renewWith(Server& importing, std::uint64_t log, std::uint16_t hashSlot);
    void renewalLost(Call& call);
    void watchRenewals();

    void noteQuit() override;

    const RedisSettings& settings_;
    const std::uint64_t identity_;
    StoreLog log_;
    CounterRegistry registry_;
    ServerCounters& unplacedCounters_;  // for requests whose server is not known
    bool quitting_ = false;             // the worker finishes its requests
    bool dying_ = false;                // only final reports of the servers arrive
    std::size_t expected_ = 0;          // requests that will ask

    Recycler<Call> calls_;
    Recycler<Batch> batchObjects_;
    Recycler<Orphan> orphans_;
    Batches batches_;                       // current batches
    List<Batch, Opened> unplaced_;          // until their server is known
    List<Call, Queued> queued_;             // to be repeated in a moment
    List<Waiter, WithDeadline> deadlines_;  // the first expires first
    CallWriter writer_;
    BatchReply reply_;  // the reply that is being processed
    KnownDenials knownDenials_;
    TakeBacks takeBacks_;
    Prefetch prefetch_;
    bool hasPermits_ = false;      // a log has some, or may have
    std::uint64_t flushedAt_ = 0;  // bootTimeMs() of the latest flush()
    Refusals refusals_;
    IsolatedLogs isolatedLogs_;
    Signature latestSignature_;  // made by signatureOf(), for its memory
    DecimalText now_{0};         // of the latest stamp()

    Posted flush_;
    Timer deadline_;
    Timer repeat_;
    Timer permitTimer_;   // for permits whose life has ended
    Timer renewalTimer_;  // for renewals that are not answered
    LocalStore& local_;
    Leases leases_;
    List<Lease, OnlyInRedis> onlyInRedis_;  // those that countLocally() is to enter
    ngx_msec_t countsLocallyUntil_ = ngx_current_msec;
    ngx_msec_t renewsApartUntil_ = ngx_current_msec;
    std::uint64_t renewedElsewhere_ = 0;  // the hash of the log that renewWith() renewed last
    ngx_msec_t renewedElsewhereUntil_ = ngx_current_msec;
    Credentials credentials_;

    std::unique_ptr<Topology> topology_;  // last, so that it is destroyed first: its servers report the calls
};

}  // namespace sliding_log
