// What a Redis store takes back, or settles: sent at the end of the event-loop turn, or kept until Redis can do it.
// Those of one log go together.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "node/isolated_logs.hpp"
#include "node/known_denials.hpp"
#include "recycler.hpp"
#include "redis/backoff.hpp"
#include "redis/timer.hpp"
#include "servers/store_log.hpp"
#include "store/kept_take_backs.hpp"
#include "store/quit_delay.hpp"
#include "store/store_calls.hpp"
#include "store/take_back.hpp"
#include "store/take_back_call.hpp"

namespace sliding_log {

class TakeBacks final : public CallOwner<TakeBackCall>, QuitDelayOwner {
  public:
    TakeBacks(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, KnownDenials& knownDenials,
              const IsolatedLogs& isolatedLogs, ngx_log_t* nginxLog);

    /// Takes back what a request logged under this unique name at `loggedMs`; of a check that is settled, the
    /// difference, which may also be added. `takenMs`: when it was decided. All logs have one algorithm and hash slot.
    void add(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs, std::uint64_t takenMs);

    /// Entries that may be in the logs, at an unknown time. They can only be found by the unique name of the request;
    /// an id may belong to another request, too. What cannot be found is lost.
    void addUnseen(std::span<const Check> checks, std::string_view unique);

    /// The entries of a request that is not under way any more leave this log of algorithm=inflight.
    void release(const Check& check, std::string_view unique);

    /// There may be one more in a while: a worker that quits waits for it. Ended by expected().
    void expect() { quitDelay_.begin(); }
    void expected() { quitDelay_.end(); }

    /// False if there are none, or a worker that quits does not wait any longer.
    bool hasAny() const { return quitDelay_.lasts(); }

    /// Sends what waits for this server and may be sent now.
    void send(Server& server);

    /// A server is ready again, or another one serves a slot.
    void sendSoon();
    void serverLeaves(Server& server);

    /// The worker was told to quit: the time for what there is starts now.
    void workerQuits();

    /// The store is destroyed.
    void loseAll();

    /// Nothing is left to wait for.
    void stopWaiting() { quitDelay_.stop(); }

    /// To be called about once a second; returns how many unused objects were freed.
    std::size_t freeUnused();

  private:
    void answered(TakeBackCall& call, const redisReply& reply, StoreError error) override;
    void lost(TakeBackCall& call) override;
    void quitDelayEnded() override;

    TakeBack& newTakeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs, std::int64_t aheadMs);
    Server* serverFor(const TakeBack& takeBack);
    void sendOrKeep(TakeBack& takeBack);
    void keepBehind(Server& server, TakeBack& takeBack);
    void keep(TakeBack& takeBack);
    void tryLater();
    void keepAll(TakeBackCall& call);
    void loseOldest(List<TakeBack, Kept>& kept);
    void sendKept();
    void putBack(Server& server);
    struct Turn;
    static Turn turnAt(Server& server);
    void send(Server& server, TakeBackCall& call);
    void ended(Server& server, TakeBackCall& call);
    void repliedTo(TakeBackCall& call, const redisReply& reply);
    bool follow(TakeBackCall& call, const redisReply& reply, StoreError error);
    void failed(TakeBack& takeBack, StoreError error, std::string_view answer);
    void loseKept(std::string_view why);
    void lose(TakeBack& takeBack, std::string_view why);
    void tellLost(std::uint16_t hashSlot, std::uint64_t entries, std::string_view why, bool settles = false);
    void finish(TakeBack& takeBack);

    StoreOfCalls& store_;
    const RedisSettings& settings_;
    StoreLog& log_;
    KnownDenials& knownDenials_;
    const IsolatedLogs& isolatedLogs_;
    Recycler<TakeBackCall> calls_;
    Recycler<TakeBack> takeBacks_;
    KeptTakeBacks kept_;
    TakeBackWriter writer_;
    QuitDelay quitDelay_;   // for those that Redis has not executed yet, and those that are expected
    bool isDying_ = false;  // only final reports of the servers arrive
    Backoff sendAfter_;
    Timer sendTimer_;
};

}  // namespace sliding_log
