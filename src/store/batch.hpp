// Requests of one worker that ask the same logs. They are sent to Redis together; the first ones that have room are
// admitted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "list.hpp"
#include "ngx.hpp"
#include "node/permit.hpp"
#include "node/signature.hpp"
#include "redis/store_error.hpp"
#include "store/work.hpp"

namespace sliding_log {

struct Batch;
struct Orphan;
struct WithDeadline;
struct InBatch;
struct Opened;

/// The part of a check that belongs to its request and is owned by it. While the reply is outstanding it is in the
/// list of its batch, from which the reply, the deadline, detach() or RedisStore::cancel() removes it.
struct Waiter : ListHook<WithDeadline>, ListHook<InBatch> {
    /// The request ends and is not told of the reply. If it has been sent, its position in the batch stays taken.
    void detach();

    /// Its request does not wait any more: it is an orphan.
    bool isCancelled() const { return wake == nullptr; }

    void (*wake)(Waiter& waiter,
                 StoreError error) = nullptr;  // called at most once per ask(); must not run the request
    std::span<Verdict> verdicts;               // written before wake(None)
    std::uint64_t loggedMs = 0;                // the same, if admitted: the time by the clock of the log
    std::span<Permit> permits;                 // one for each check, to be used if all have prefetch=; else empty
    bool permitted = false;                    // written before wake(None): it was admitted by permits
    bool known = false;                        // the same: a known denial denied it while it waited to be sent
    bool apart = false;        // written before an error: one of several logs may have caused it, ask each separately
    Orphan* orphan = nullptr;  // while it is woken with an error: waits for the reply in its
                               // place, if one may arrive

    // the store's own
    Batch* batch = nullptr;
    std::span<const Check> checks;
    std::string_view unique;
    ngx_msec_t deadline = 0;
    std::size_t position = 0;  // among the requests of its batch, once that is sent
};

/// Requests join a batch until it is sent or has too much work for one call; then they join its last follower. A
/// follower is sent when its predecessor has been answered. So a log that many requests ask has one call of bounded
/// length in flight at a time, calls of other logs are sent in between, and requests are decided in the order of their
/// arrival.
struct Batch : ListHook<Opened> {
    /// Far below what Lua can unpack() (8000), and more than arrive in a round trip.
    static constexpr std::size_t kMostRequests = 512;

    std::int64_t work() const { return workOfLogs + workOfRequest * static_cast<std::int64_t>(requests); }
    bool isFull() const {
        // all have the work of the logs in common, whatever that is
        return requests >= kMostRequests ||
               (requests > 0 && workOfRequest * static_cast<std::int64_t>(requests + 1) > kMostWorkPerCall);
    }

    /// Of requests with the same signature: true if they have these costs, too. False if none is there any more.
    bool hasCostsOf(std::span<const Check> checks) {
        return !waiters.isEmpty() && std::ranges::equal(waiters.front().checks, checks, {}, &Check::cost, &Check::cost);
    }

    Signature signature;  // of the logs and limits asked; without the costs, if it waits for those of other costs
    std::size_t requests = 0;
    std::int64_t workOfLogs = 0;           // see work.hpp
    std::int64_t workOfRequest = 0;        // of each
    Algorithm algorithm = Algorithm::Log;  // of all the logs
    std::uint16_t hashSlot = 0;            // of all the keys, in a cluster
    bool sent = false;
    ngx_msec_t sentAt = 0;
    std::uint32_t generation = 0;  // of its logs, when it was sent: see KnownDenials
    AskedPermits asked;
    bool notesPermits = false;        // one of its logs may have permits
    bool hasSoughtPermits = false;    // once, before it is sent: another worker may get some at any time
    bool isFollower = false;          // it has waited for another batch, which may have got permits
    bool refreshes = false;           // one of its requests asks for all that a known denial denies in the meantime
    const void* refusedBy = nullptr;  // the server that sent the latest error to be waited out
    std::string refusal;              // that error; empty: none
    bool isInDoubt = false;           // no reply will arrive, and it may be logged
    List<Waiter, InBatch> waiters;    // in the order of their requests
    List<Waiter, InBatch> orphans;
    Batch* follower = nullptr;  // sent after this one
    Batch* last = nullptr;      // of the followers; where the batch has no predecessor
    Batch* nextInBucket = nullptr;
};

inline void Waiter::detach() {
    if (batch != nullptr) {
        if (!batch->sent) {
            batch->requests--;
        }
        batch = nullptr;
        static_cast<ListHook<WithDeadline>&>(*this).unlink();
        static_cast<ListHook<InBatch>&>(*this).unlink();
    }
}

/// The current batches, by signature. An intrusive hash table, so that nothing is allocated per request. The number of
/// buckets is fixed, since there are no more batches than waiting requests.
class Batches {
  public:
    Batch* find(const Signature& signature) const {
        Batch* batch = bucketOf(signature.hash);
        while (batch != nullptr && batch->signature != signature) {
            batch = batch->nextInBucket;
        }
        return batch;
    }

    void insert(Batch& batch) {
        Batch*& bucket = bucketOf(batch.signature.hash);
        batch.nextInBucket = bucket;
        bucket = &batch;
    }

    void erase(Batch& batch) {
        Batch** link = &bucketOf(batch.signature.hash);
        while (*link != &batch) {
            link = &(*link)->nextInBucket;
        }
        *link = batch.nextInBucket;
    }

  private:
    static constexpr std::size_t kBuckets = 1024;

    Batch* bucketOf(std::size_t hash) const { return buckets_[hash % kBuckets]; }
    Batch*& bucketOf(std::size_t hash) { return buckets_[hash % kBuckets]; }

    Batch* buckets_[kBuckets] = {};
};

}  // namespace sliding_log
