// The batches of a worker that wait to be sent to one store, and the order in which they are.
#pragma once

#include <cstdint>
#include <span>

#include "limit/check.hpp"
#include "node/known_denials.hpp"
#include "node/signature.hpp"
#include "recycler.hpp"
#include "redis/store_error.hpp"
#include "settings/settings.hpp"
#include "store/batch.hpp"
#include "store/prefetch.hpp"
#include "store/store_calls.hpp"

namespace sliding_log {

class BatchingOwner {
  public:
    /// No server can be asked for it any more; finish() is called for it.
    virtual void failed(Batch& batch, StoreError error) = 0;

  protected:
    ~BatchingOwner() = default;
};

class Batching {
  public:
    Batching(BatchingOwner& owner, StoreOfCalls& store, const RedisSettings& settings, KnownDenials& knownDenials,
             Prefetch& prefetch)
        : owner_(owner), store_(store), settings_(settings), knownDenials_(knownDenials), prefetch_(prefetch) {}

    /// The batch that a request with these checks joins: the last one with the same checks, if it has not been sent and
    /// has room. Those that take Redis long wait for each other, whatever their costs: these leave the signature then.
    Batch& batchFor(std::span<const Check> checks, Signature& signature);

    /// To be called before nextToSend(), in each turn.
    void beginTurn();

    /// The first batch to be sent to this server, nullptr if there is none; the same one until sent(). Batches without
    /// waiters are retired, and those whose requests have got permits, or were denied, in the meantime.
    Batch* nextToSend(Server& server);

    /// It is in a call that is sent now.
    void sent(Server& server, Batch& batch);

    /// The batch is done; its follower is next.
    void finish(Batch& batch);

    /// A server is away, or leaves: its batches go to another one, or have failed.
    void openAgain(Server& server);

    /// Those without a server may have one now.
    void openUnplaced() { openAgain(unplaced_); }

    /// A log of this store has permits: other workers may have got them.
    void notePermits() { hasPermits_ = true; }

    /// bootTimeMs() of the latest beginTurn(), if a log has permits.
    std::uint64_t turnAt() const { return turnAt_; }

    /// A log has permits, or may have.
    bool hasPermits() const { return hasPermits_; }

    /// To be called about once a second; returns how many unused objects were freed.
    std::size_t freeUnused() { return batchObjects_.freeUnused(); }

  private:
    Batch& newBatch(std::span<const Check> checks, const Signature& signature);
    void open(Batch& batch);
    void openAgain(List<Batch, Opened>& batches);
    void denyKnown(Batch& batch);
    void servePermits(Batch& batch);

    BatchingOwner& owner_;
    StoreOfCalls& store_;
    const RedisSettings& settings_;
    KnownDenials& knownDenials_;
    Prefetch& prefetch_;
    Recycler<Batch> batchObjects_;
    Batches batches_;               // current batches
    List<Batch, Opened> unplaced_;  // until their server is known
    bool hasPermits_ = false;
    std::uint64_t turnAt_ = 0;
};

}  // namespace sliding_log
