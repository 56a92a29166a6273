// The state of a worker process.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "heap.hpp"
#include "limit/unique_id.hpp"
#include "local/local_store.hpp"
#include "metrics/counter_registry.hpp"
#include "metrics/seen_overrides.hpp"
#include "metrics/top_keys.hpp"
#include "node/lease_length.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"
#include "shared/boot_time.hpp"
#include "store/leases.hpp"
#include "store/queues.hpp"
#include "store/redis_store.hpp"

namespace sliding_log {

class Worker {
  public:
    /// Opens the stores that limits use; the configuration must have a zone. Throws std::bad_alloc, and
    /// std::runtime_error if there is no randomness.
    Worker(const MainSettings& settings, ngx_log_t* log);

    RedisStore& store(const RedisSettings& settings) { return *stores_[settings.index]; }
    LocalStore& local() { return local_; }

    /// Of the logs of this store, among those of all stores; 0: the local one, nullptr.
    std::uint64_t identityOf(const RedisSettings* home) { return home == nullptr ? 0 : store(*home).identity(); }

    /// Of local limits.
    Leases& leases() { return leases_; }
    const LeaseLength& leaseLength(const LogSettings& log) const { return leaseLengths_[log.index]; }
    Queues& queues() { return queues_; }
    UniqueIds& uniqueIds() { return uniqueIds_; }

    /// Of the whole NAME in this store; nullptr: the log obeys none there.
    const NameRecord* recordOf(const LogSettings& log, const RedisSettings* home) const {
        return home == nullptr ? nullptr : records_[log.index * stores_.size() + home->index];
    }

    /// What that record says now. Without one it costs next to nothing, since each request asks.
    Override overrideOf(const LogSettings& log, const RedisSettings* home) const {
        const NameRecord* record = recordOf(log, home);
        return record == nullptr || record->isNone() ? Override() : record->now(bootTimeMs());
    }
    LimitCounters& counters(const LogSettings& log) { return *limits_[log.index]; }
    const CounterRegistry& registry() const { return registry_; }
    TopKeys& usedKeys() { return usedKeys_; }
    TopKeys& deniedKeys() { return deniedKeys_; }
    SeenOverrides& overrides() { return overrides_; }

  private:
    void tick();
    void claimLeases();
    void readRecords(std::span<LogSettings* const> logs);

    ngx_slab_pool_t& pool_;  // of the zone
    UniqueIds uniqueIds_;
    LocalStore local_;
    Leases leases_;
    Queues queues_;
    CounterRegistry registry_;
    TopKeys usedKeys_;    // admitted
    TopKeys deniedKeys_;  // denied
    SeenOverrides overrides_;
    std::vector<LimitCounters*> limits_;     // by LogSettings::index
    std::vector<LeaseLength> leaseLengths_;  // the same; they stay where they are
    std::deque<NameRecord> ownRecords_;      // that found no room in the zone
    std::vector<NameRecord*> records_;       // of each log in each store; nullptr: it obeys none there
    std::vector<std::unique_ptr<RedisStore>>
        stores_;  // by RedisSettings::index; nullptr where unused, not started where only nameable
    Heap heap_;
    Timer tick_;
};

}  // namespace sliding_log
