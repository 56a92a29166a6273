// The counters of all limits and servers, the leases of limits, and the records of their NAMEs: a part of the zone of
// fixed size, so that logs cannot displace them.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "metrics/counters.hpp"
#include "metrics/lease_claims.hpp"
#include "metrics/name_record.hpp"
#include "ngx.hpp"
#include "this_process.hpp"

namespace sliding_log {

/// Aligned to a cache line, so that different counters do not slow each other down.
template <typename T>
struct alignas(64) RegistryEntry {
    RegistryEntry* next = nullptr;
    T counters;
};

/// Only grows, at the front, so reading needs no lock.
template <typename T>
using RegistryList = std::atomic<RegistryEntry<T>*>;

/// In shared memory.
struct RegistryHeader {
    char* memory;  // not allocated yet
    std::size_t left;
    RegistryList<LimitCounters> limits;
    RegistryList<ServerCounters> servers;
    RegistryList<LeaseClaims> leases;
    RegistryList<NameRecord> records;
    std::uint64_t configurations;        // so many have used the zone; written by the master only
    std::atomic<std::uint64_t> running;  // the number of the latest one of which a worker has started
    ngx_msec_t warnedAt;
    ngx_flag_t everWarned;
};

class CounterRegistry {
  public:
    /// Of a worker of this configuration.
    CounterRegistry(ngx_slab_pool_t& pool, RegistryHeader& header, std::uint64_t configuration)
        : pool_(&pool), header_(&header), configuration_(configuration) {
        raise(header.running, configuration);
    }

    /// The counters of this limit or server, the same for all workers and after reloads. If the memory is full, they
    /// belong to this process only and have no names, and a warning is logged at most once a minute. They stay valid as
    /// long as this process touches them every few seconds.
    LimitCounters& limit(std::string_view name) { return findOrMake(header_->limits, name, {}); }
    ServerCounters& server(std::string_view store, std::string_view server) {
        ServerCounters& counters = findOrMake(header_->servers, store, server);
        raise(counters.configuration, configuration_);
        return counters;
    }
    LeaseClaims& leases(std::string_view name) { return findOrMake(header_->leases, name, {}); }
    NameRecord& record(std::string_view name, std::string_view store) {
        return findOrMake(header_->records, name, store);
    }

    /// Calls visit(ServerCounters&) for each server that a worker of the latest configuration uses: older ones may last
    /// for long.
    template <typename Visit>
    void forEachServer(Visit visit) const {
        for (auto* each = header_->servers.load(std::memory_order_acquire); each != nullptr; each = each->next) {
            const bool isLatest = each->counters.configuration.load(std::memory_order_relaxed) >=
                                  header_->running.load(std::memory_order_relaxed);
            if (isLatest && !isUntouchedFor(each->counters, kShownMs)) {
                visit(each->counters);
            }
        }
    }

  private:
    /// Counters that are not touched are hidden after the first time, and may be replaced after the second one.
    static constexpr ngx_msec_int_t kShownMs = 60'000;
    static constexpr ngx_msec_int_t kKeptMs = 600'000;

    /// The time of another worker may be ahead of ours.
    template <typename T>
    static bool isUntouchedFor(const T& counters, ngx_msec_int_t ms) {
        const ngx_msec_t touchedMs = counters.touchedMs.load(std::memory_order_acquire);
        return static_cast<ngx_msec_int_t>(nowMs() - touchedMs) >= ms;
    }

    static void raise(std::atomic<std::uint64_t>& number, std::uint64_t least) {
        std::uint64_t before = number.load(std::memory_order_relaxed);
        while (before < least && !number.compare_exchange_weak(before, least, std::memory_order_relaxed)) {
        }
    }

    template <typename T>
    T& findOrMake(RegistryList<T>& list, std::string_view first, std::string_view second);
    template <typename T>
    T* makeRoom(RegistryList<T>& list);
    void warn(std::string_view first, std::string_view second);

    ngx_slab_pool_t* pool_;
    RegistryHeader* header_;
    std::uint64_t configuration_;
};

extern template LimitCounters& CounterRegistry::findOrMake(RegistryList<LimitCounters>&, std::string_view,
                                                           std::string_view);
extern template LeaseClaims& CounterRegistry::findOrMake(RegistryList<LeaseClaims>&, std::string_view,
                                                         std::string_view);
extern template NameRecord& CounterRegistry::findOrMake(RegistryList<NameRecord>&, std::string_view, std::string_view);
extern template ServerCounters& CounterRegistry::findOrMake(RegistryList<ServerCounters>&, std::string_view,
                                                            std::string_view);

}  // namespace sliding_log
