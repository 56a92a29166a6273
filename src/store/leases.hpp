// The leases that a worker holds in one store: each is renewed every third of its length, all of one length together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "local/local_store.hpp"
#include "redis/timer.hpp"
#include "store/lease.hpp"

namespace sliding_log {

class Leases {
  public:
    /// The most that are renewed at a time, so that neither the worker nor Redis works for long: leases, and entries.
    static constexpr std::size_t kMostAtOnce = 500;
    static constexpr std::int64_t kMostEntriesAtOnce = 1000;

    /// `renew` is called from a timer with some leases, whose order it may change. They have at most kMostEntriesAtOnce
    /// entries, unless there is only one.
    using Renew = std::function<void(std::span<Lease*> leases)>;

    Leases(Renew renew, ngx_log_t* log) : renew_(std::move(renew)), log_(log) {}

    bool isEmpty() const { return held_ == 0; }

    /// A lease whose check, length, name and place are set.
    void begin(Lease& lease);
    void end(Lease& lease);

    /// All leases are renewed in a moment, whenever that is due.
    void renewSoon(ngx_msec_t afterMs);

    /// A renewal has failed: all are renewed after a tenth of their length, if that is not due earlier.
    void renewAgain();

    /// Sorts the leases into runs, and calls visit() for each run. The leases of a run are of one log, and their
    /// entries have the same time in the log of this node.
    template <typename Visit>
    static void forEachRun(std::span<Lease*> leases, Visit visit) {
        sort(leases);
        for (std::size_t begin = 0, end = 0; begin < leases.size(); begin = end) {
            for (end = begin + 1; end < leases.size() && areAlike(*leases[begin], *leases[end]); end++) {
            }
            visit(leases.subspan(begin, end - begin));
        }
    }

    template <typename Visit>
    void forEach(Visit visit) {
        for (const std::unique_ptr<Group>& group : groups_) {
            group->leases.forEach(visit);
        }
    }

  private:
    static void sort(std::span<Lease*> leases);
    static bool areAlike(const Lease& left, const Lease& right) {
        return left.hash == right.hash && left.localMs == right.localMs && left.check->key == right.check->key;
    }

    /// Those of one length, which is that of the configuration: a longer one may count, and ends without a word. The
    /// configuration has few lengths.
    struct Group {
        Group(Leases& owner, ngx_msec_t length, ngx_log_t* log)
            : owner(owner),
              lengthMs(length),
              timer(
                  this, [](void* self) { static_cast<Group*>(self)->fire(); }, Timer::Kind::Chore, log) {}
        void fire();
        void rest();

        Leases& owner;
        ngx_msec_t lengthMs;
        List<Lease, ByRenewal> leases;  // those renewed last are at the end
        ngx_msec_t renewalAt = 0;       // when the current renewal of all began
        bool isUnderWay = false;        // some of them are still to be renewed by it
        bool hasFailed = false;         // the next one comes earlier
        Timer timer;
    };

    Group& groupOf(const Lease& lease);

    Renew renew_;
    ngx_log_t* log_;
    std::vector<std::unique_ptr<Group>> groups_;
    std::size_t held_ = 0;
};

/// The number of their entries.
std::int64_t entriesOf(std::span<Lease* const> leases);

/// Renews those of one log, which have one time there, in the memory of this node.
void renewIn(LocalStore& local, std::span<Lease* const> leases);

}  // namespace sliding_log
