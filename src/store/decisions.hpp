// The requests that a Redis store decides: checks in, verdicts out. They are gathered into batches, which share calls;
// a reply is told to those that wait for it, and what was not executed is asked again while a request waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "node/isolated_logs.hpp"
#include "node/known_denials.hpp"
#include "recycler.hpp"
#include "redis/reply.hpp"
#include "redis/timer.hpp"
#include "servers/refusals.hpp"
#include "servers/store_log.hpp"
#include "settings/settings.hpp"
#include "store/ask_ahead.hpp"
#include "store/batching.hpp"
#include "store/decision_call.hpp"
#include "store/prefetch.hpp"
#include "store/store_calls.hpp"
#include "store/take_backs.hpp"
#include "store/waiting.hpp"

namespace sliding_log {

class Decisions final : public CallOwner<DecisionCall>, BatchingOwner {
  public:
    /// `identity`: of the store, for signatures.
    Decisions(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, KnownDenials& knownDenials,
              Permits permits, std::uint64_t identity, IsolatedLogs& isolatedLogs, TakeBacks& takeBacks,
              ngx_log_t* nginxLog);

    enum class Reception {
        Pending,      // the waiter is woken with the result, at most `timeout` later
        KnownDenied,  // the verdicts are set: there is a known denial
        Permitted,    // the verdicts are set: permits of the node were used
        Unavailable,  // the store is unavailable
        Apart         // these limits have to be asked one by one
    };

    /// As RedisStore::ask().
    Reception ask(std::span<const Check> checks, std::string_view unique, ngx_msec_t leftMs, Waiter& waiter);

    /// The known denial of these checks; unless it is None, the verdicts are set.
    DenialState known(std::span<const Check> checks, std::span<Verdict> verdicts);

    Waiting& waiting() { return waiting_; }
    const Waiting& waiting() const { return waiting_; }
    Prefetch& prefetch() { return prefetch_; }

    /// Sends all batches of this server, in as few calls as possible.
    void flush(Server& server);

    /// Asks for permits that are needed soon.
    void askAhead();

    /// A server has answered a call of this slot.
    void answered(const Server& server, std::uint16_t hashSlot, StoreError error);

    void serverDown(Server& server);
    void serverLeaves(Server& server);
    void mapChanged() { batching_.openUnplaced(); }

    /// Permits whose life has ended are returned, or all of this worker.
    void endPermits(bool all);

    /// The store is destroyed: what waits to be repeated has failed.
    void loseAll();

    /// To be called about once a second; returns how many unused objects were freed, and how many requests wait.
    std::size_t tick();

  private:
    void answered(DecisionCall& call, const redisReply& reply, StoreError error) override;
    void lost(DecisionCall& call) override;
    void leftBehind(DecisionCall& call) override { route(call); }
    void failed(Batch& batch, StoreError error) override { complete(batch, error); }

    Signature& signatureOf(std::span<const Check> checks);
    bool isTurnedAway(std::uint16_t hashSlot);
    void route(DecisionCall& call);

    void repeat(DecisionCall& call, const redisReply& reply, StoreError error);
    void repeatSoon(DecisionCall& call);
    void repeatQueued();
    void waitOut(DecisionCall& call, std::string_view answer, StoreError error);
    void askApart(DecisionCall& call, StoreError error);
    bool askAnew(Batch& batch);
    void readRecord(Batch& batch);
    void recordRead(DecisionCall& call, std::string_view record);

    void applyReply(DecisionCall& call, const redisReply& reply);
    void applyReply(Server& server, Batch& batch, const redisReply& reply, const redisReply* time);
    void tellSkew(const Server& server, Batch& batch);
    void learn(Batch& batch);
    void noteAdmitted(Server& server, Algorithm algorithm, std::size_t logs);
    void learnPermits(Server& server, const AskedPermits& asked, std::span<const Check> checks, BatchReply& reply);
    void failPermits(const AskedPermits& asked, bool isInDoubt);
    void failed(DecisionCall& call, StoreError error);
    void refuse(Batch& batch, StoreError error);
    void complete(Batch& batch, StoreError error);

    StoreOfCalls& store_;
    const RedisSettings& settings_;
    StoreLog& log_;
    KnownDenials& knownDenials_;
    const std::uint64_t identity_;
    IsolatedLogs& isolatedLogs_;
    TakeBacks& takeBacks_;
    Refusals refusals_;
    Prefetch prefetch_;
    AskAhead askAhead_;
    Batching batching_;
    Waiting waiting_;
    Recycler<DecisionCall> calls_;
    List<Call, Queued> queued_;  // to be repeated in a moment
    DecisionWriter writer_;
    BatchReply reply_;           // the reply that is being processed
    Signature latestSignature_;  // made by signatureOf(), for its memory
    Timer repeat_;
    Timer permitTimer_;  // for permits whose life has ended
};

}  // namespace sliding_log
