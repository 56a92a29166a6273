// Requests of one worker that ask the same logs. They are sent to Redis together; the first ones that have room are
// admitted.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "limit/verdict.hpp"
#include "ngx.hpp"
#include "redis/store_error.hpp"
#include "store/list.hpp"
#include "store/signature.hpp"
#include "store/work.hpp"

namespace sliding_log {

struct Group;
struct Orphan;
struct WithDeadline;
struct InGroup;
struct Opened;

/// The part of a question that belongs to its request and is owned by it. While the reply is outstanding it is in the
/// list of its group, from which the reply, the deadline or forget() removes it.
struct Waiter : ListHook<WithDeadline>, ListHook<InGroup> {
    /// The request ends and is not told of the reply. If it has been sent, its place in the group stays taken.
    void forget();

    /// Its request does not wait any more: it is an orphan.
    bool isGone() const { return wake == nullptr; }

    void (*wake)(Waiter& waiter,
                 StoreError error) = nullptr;  // called at most once per ask(); must not run the request
    std::span<Verdict> verdicts;               // written before wake(None)
    std::uint64_t loggedMs = 0;                // the same, if admitted: the time by the clock of the log
    bool apart = false;        // written before an error: one of several logs may have caused it, ask each separately
    Orphan* orphan = nullptr;  // while it is woken with an error: waits for the reply in its
                               // place, if one may arrive

    // the store's own
    Group* group = nullptr;
    std::span<const Question> questions;
    std::string_view unique;
    ngx_msec_t deadline = 0;
    std::size_t place = 0;  // among the requests of its group, once that is sent
};

/// Requests join a group until it is sent or has too much work for one call; then they join its last follower. A
/// follower is sent when its predecessor has been answered. So a log that many requests ask has one call of bounded
/// length in flight at a time, calls of other logs are sent in between, and requests are decided in the order of their
/// arrival.
struct Group : ListHook<Opened> {
    /// Far below what Lua can unpack() (8000), and more than arrive in a round trip.
    static constexpr std::size_t kMostRequests = 512;

    std::int64_t work() const { return workOfLogs + workOfRequest * static_cast<std::int64_t>(requests); }
    bool isFull() const {
        return requests >= kMostRequests || (requests > 0 && work() + workOfRequest > kMostWorkPerCall);
    }

    Signature signature;  // of the logs and limits asked
    std::size_t requests = 0;
    std::int64_t workOfLogs = 0;           // see work.hpp
    std::int64_t workOfRequest = 0;        // of each
    Algorithm algorithm = Algorithm::Log;  // of all the logs
    std::uint16_t slot = 0;                // of all the keys, in a cluster
    bool sent = false;
    ngx_msec_t sentAt = 0;
    std::uint32_t generation = 0;     // of its logs, when it was sent: see Denials
    bool refreshes = false;           // one of its requests asks for all that a known denial denies in the meantime
    const void* refusedBy = nullptr;  // the server that sent the latest error to be waited out
    std::string refusal;              // that error; empty: none
    bool isInDoubt = false;           // no reply will arrive, and it may be logged
    List<Waiter, InGroup> waiters;    // in the order of their requests
    List<Waiter, InGroup> orphans;
    Group* follower = nullptr;  // sent after this one
    Group* last = nullptr;      // of the followers; where the group has no predecessor
    Group* nextInBucket = nullptr;
};

inline void Waiter::forget() {
    if (group != nullptr) {
        if (!group->sent) {
            group->requests--;
        }
        group = nullptr;
        static_cast<ListHook<WithDeadline>&>(*this).unlink();
        static_cast<ListHook<InGroup>&>(*this).unlink();
    }
}

/// The current groups, by signature. An intrusive hash table, so that nothing is allocated per request. The number of
/// buckets is fixed, since there are no more groups than waiting requests.
class Groups {
  public:
    Group* find(const Signature& signature) const {
        Group* group = bucketOf(signature.hash);
        while (group != nullptr && group->signature != signature) {
            group = group->nextInBucket;
        }
        return group;
    }

    void insert(Group& group) {
        Group*& bucket = bucketOf(group.signature.hash);
        group.nextInBucket = bucket;
        bucket = &group;
    }

    void erase(Group& group) {
        Group** link = &bucketOf(group.signature.hash);
        while (*link != &group) {
            link = &(*link)->nextInBucket;
        }
        *link = group.nextInBucket;
    }

  private:
    static constexpr std::size_t kBuckets = 1024;

    Group* bucketOf(std::size_t hash) const { return buckets_[hash % kBuckets]; }
    Group*& bucketOf(std::size_t hash) { return buckets_[hash % kBuckets]; }

    Group* buckets_[kBuckets] = {};
};

}  // namespace sliding_log
