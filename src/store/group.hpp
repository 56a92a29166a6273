// Requests of one worker that ask the same logs: they go to Redis together, and the first that fit are admitted.
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

/// A request's side of a question. It lives in the request; while the answer is out it is in its group's list, from
/// which the answer, the deadline or forget() takes it.
struct Waiter : ListHook<WithDeadline>, ListHook<InGroup> {
    /// The request goes: the answer will find nobody. Its place on the wire, where it has one, stays taken.
    void forget();

    /// Its request waits no longer: it is an orphan.
    bool isGone() const { return wake == nullptr; }

    void (*wake)(Waiter& waiter,
                 StoreError error) = nullptr;  // called at most once per ask(); must not run the request
    std::span<Verdict> verdicts;               // written before wake(None)
    std::uint64_t loggedMs = 0;                // the same, by Redis's clock: where it was admitted
    bool apart = false;  // the same, with an error: of several logs one may be its reason, so each is to be asked apart
    Orphan* orphan = nullptr;  // while it is woken with an error: what waits for the answer in its
                               // place, if that may come

    // the store's own
    Group* group = nullptr;
    std::span<const Question> questions;
    std::string_view unique;
    ngx_msec_t deadline = 0;
    std::size_t place = 0;  // among the requests of its group, once that is sent
};

/// Not sent yet, requests join, as long as that is not too much work for one call; sent or full, they join its last
/// follower. A follower is sent when the reply to its predecessor is here. So a log that many requests ask has one call
/// at a time on its way, of bounded length, other logs' calls go between, and each request is still decided in the
/// order of arrival.
struct Group : ListHook<Opened> {
    /// Far inside what Lua can unpack() (8000), and more than a round trip gathers.
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
    std::uint16_t slot = 0;                // the same, in a cluster
    bool sent = false;
    ngx_msec_t sentAt = 0;
    std::uint32_t generation = 0;     // of its logs, when it was sent: see Denials
    bool refreshes = false;           // a request of it asks for all whom a known denial denies meanwhile
    const void* refusedBy = nullptr;  // the server that gave the latest answer to wait out
    std::string refusal;              // that answer; empty: none
    bool isInDoubt = false;           // no answer will come, and it may be logged
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

/// The groups under way, by signature. A hash table through its elements, so that none is allocated per request; the
/// number of buckets is fixed, since groups under way are no more than requests held at once.
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
