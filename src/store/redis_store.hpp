// The logs of one sliding_log_redis block as used by one worker: checks in, verdicts out, within a deadline.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "limit/number.hpp"
#include "local/local_store.hpp"
#include "metrics/counter_registry.hpp"
#include "node/isolated_logs.hpp"
#include "node/known_denials.hpp"
#include "redis/posted.hpp"
#include "servers/cluster.hpp"
#include "servers/store_log.hpp"
#include "servers/topology.hpp"
#include "settings/settings.hpp"
#include "store/decisions.hpp"
#include "store/lease.hpp"
#include "store/name_records.hpp"
#include "store/renewals.hpp"
#include "store/server_queues.hpp"
#include "store/store_calls.hpp"
#include "store/take_backs.hpp"

namespace sliding_log {

class RedisStore final : ClusterOwner, CredentialsOwner, StoreOfCalls {
  public:
    RedisStore(const RedisSettings& settings, KnownDenials denials, Permits permits, LocalStore& local,
               const CounterRegistry& registry, ngx_log_t* log);
    ~RedisStore();
    RedisStore(const RedisStore&) = delete;
    RedisStore& operator=(const RedisStore&) = delete;

    /// Connects before the first check. Until then it is down. Once is enough.
    void start();

    /// The same for stores with the same logs, also after reloads.
    std::uint64_t identity() const { return identity_; }

    /// A request that waits for a place will ask again: a worker that quits stays connected until letGo().
    void stayConnected() { expected_++; }
    void letGo();

    /// The record of this NAME is read into `record`, which all workers share.
    void readRecordOf(const LogSettings& limit, NameRecord& record) { nameRecords_.add(limit, record); }

    /// To be called about once a second: frees unused objects. Returns how many, and how many requests wait.
    std::size_t tick();

    using Reception = Decisions::Reception;

    /// Asks limits of one request, all or nothing; all of one algorithm, in a cluster of one hash slot. The waiter is
    /// woken only if the result is Pending, never before the return. `unique` is a name that no other request has;
    /// `leftMs`: how long the request may still wait. Checks, name and waiter must live until the waiter is woken or
    /// detached, or cancel() is called.
    Reception ask(std::span<const Check> checks, std::string_view unique, ngx_msec_t leftMs, Waiter& waiter) {
        return decisions_.ask(checks, unique, leftMs, waiter);
    }

    /// True if its server is connected and has answered all checks in time.
    bool isWell(std::uint16_t hashSlot);

    /// True if one server decides both. False if none is known.
    bool haveOneServer(std::uint16_t hashSlot, std::uint16_t other);

    bool canBeAsked(std::uint16_t hashSlot) override;

    /// The known denial of these checks; unless it is None, the verdicts are set.
    DenialState known(std::span<const Check> checks, std::span<Verdict> verdicts) {
        return decisions_.known(checks, verdicts);
    }

    /// Like Waiter::detach(), but what was logged is taken back when the reply arrives: all of it if it was a
    /// reservation, otherwise of the checks with leavesWithClient.
    void cancel(Waiter& waiter) { decisions_.waiting().cancel(waiter); }

    /// Takes back what an ask() with this unique name, whose waiter was woken with an error, has logged or will log. If
    /// this cannot be known, and entries have no names, it counts as lost.
    void takeBackLate(LateReply& late, std::span<const Check> checks, std::string_view unique) {
        decisions_.waiting().takeBackLate(late, checks, unique);
    }

    /// Takes back what a request has logged by this permit.
    void takeBackPermit(const Check& check, const Permit& permit) { decisions_.prefetch().giveBack(check, permit); }

    /// Takes back what an ask() with this unique name logged, at the time that its waiter got, and ends blocks that
    /// have no reason any more; of a check that is settled, the difference, which may also be added; `takenMs`: when it
    /// was decided, which is before that time if the request was held. No request waits for it, but a worker that quits
    /// does, as long as Redis executes some within each `timeout`, at most 10 s. If Redis cannot do it now, or has
    /// enough of them to do, it is kept and done later; lost take-backs are counted and logged.
    void takeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                  std::uint64_t takenMs) {
        takeBacks_.add(checks, unique, loggedMs, takenMs);
    }

    /// The request is under way from now on: its entry is renewed until end(), which gives it back. While Redis is
    /// away, the log of this node has it, if it is to be counted there.
    void begin(Lease& lease);
    void end(Lease& lease);

    /// To be called when Redis could not decide this check, before the log of this node does. With algorithm=inflight
    /// it enters the requests that this worker has under way in that log.
    void countLocally(const Check& decided) { renewals_.countLocally(decided); }

  private:
    ServerCounters& counters(std::string_view server) override {
        return registry_.server(view(settings_.name), server);
    }
    std::unique_ptr<ServerAttachment> attach() override { return std::make_unique<ServerQueues>(); }
    void answered(const Server& server, std::uint16_t hashSlot, StoreError error) override {
        decisions_.answered(server, hashSlot, error);
    }
    void serverReady(Server& server) override;
    void serverDown(Server& server) override;
    void serverLeaves(Server& server) override;
    void mapChanged() override;
    void workerQuits() override;
    Credentials& credentials() override { return credentials_; }
    void passwordRead() override;
    bool isLeaving() const override {
        return quitting_ && expected_ == 0 && decisions_.waiting().isEmpty() && renewals_.isEmpty() &&
               !takeBacks_.hasAny() && !dying_;
    }
    Topology& topology() override { return *topology_; }
    Server* serverOf(std::uint16_t hashSlot) override { return dying_ ? nullptr : topology_->serverOf(hashSlot); }
    ServerCounters& countersOf(std::uint16_t hashSlot) override;
    Server* redirectedBy(const Call& call, const redisReply& reply, StoreError error) override;
    void leaveAsReadOnly(Server& server, const redisReply& reply) override;
    std::string_view stamp(Algorithm algorithm) override;
    void flushSoon() override { flush_.post(); }
    bool isQuitting() const override { return quitting_; }
    void closeWhenUnused() override;
    void flush();
    void noteQuit() override;

    const RedisSettings& settings_;
    const std::uint64_t identity_;
    StoreLog log_;
    CounterRegistry registry_;
    ServerCounters& unplacedCounters_;  // for requests whose server is not known
    bool started_ = false;
    bool hasBeenReady_;         // or calls may wait for its first connection
    bool quitting_ = false;     // the worker finishes its requests
    bool dying_ = false;        // only final reports of the servers arrive
    std::size_t expected_ = 0;  // requests that will ask

    KnownDenials knownDenials_;
    IsolatedLogs isolatedLogs_;
    TakeBacks takeBacks_;
    Decisions decisions_;
    Renewals renewals_;
    NameRecords nameRecords_;
    DecimalText now_{0};  // of the latest stamp()
    Posted flush_;
    Credentials credentials_;

    std::unique_ptr<Topology> topology_;  // last, so that it is destroyed first: its servers report the calls
};

}  // namespace sliding_log
