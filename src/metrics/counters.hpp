// The counters of one limit, and of one server of a store. Plain data in memory shared by all workers: counting is a
// relaxed addition, without a lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "limit/result.hpp"
#include "limit/source.hpp"
#include "metrics/histogram.hpp"
#include "redis/store_error.hpp"
#include "shared/one_worker.hpp"

namespace sliding_log {

/// The owner of counters, as one or two names.
template <std::size_t Longest>
class Names {
  public:
    static bool fit(std::string_view first, std::string_view second) { return first.size() + second.size() <= Longest; }

    void set(std::string_view first, std::string_view second) {
        firstLength_ = static_cast<std::uint16_t>(first.size());
        secondLength_ = static_cast<std::uint16_t>(second.size());
        std::memcpy(text_, first.data(), first.size());
        if (!second.empty()) {
            std::memcpy(text_ + first.size(), second.data(), second.size());
        }
    }

    std::string_view first() const { return {text_, firstLength_}; }
    std::string_view second() const { return {text_ + firstLength_, secondLength_}; }

  private:
    std::uint16_t firstLength_ = 0;
    std::uint16_t secondLength_ = 0;
    char text_[Longest] = {};
};

/// Counters with an owner. `touchedMs`: when a worker last used them. Those of an owner that is not used any more are
/// reused under another name: clear(), names.set() and touch(), in this order, since others read touchedMs first.
template <std::size_t LongestNames>
struct Owned {
    std::atomic<std::uint64_t> touchedMs{0};
    Names<LongestNames> names;

    void touch(std::uint64_t nowMs) { touchedMs.store(nowMs, std::memory_order_release); }
};

struct LimitCounters : Owned<64> {
    Counter decided[std::size(kResultNames)][std::size(kSourceNames)];
    Counter nearLimit;
    Counter newLogs;                               // that a request was the first of
    Counter overridden;                            // decisions that a record changed (override=on)
    std::atomic<std::uint64_t> toldInvalidMs{0};   // when the error log last reported an invalid number; 0: never
    std::atomic<std::uint64_t> toldOverrideMs{0};  // the same of a record that counts as none

    Counter& of(Result result, Source source) {
        return decided[static_cast<std::size_t>(result)][static_cast<std::size_t>(source)];
    }

    /// True for one worker, once a second.
    bool mayTellOfInvalid(std::uint64_t nowMs) { return mayTell(toldInvalidMs, nowMs, kTellEveryMs); }
    bool mayTellOfOverride(std::uint64_t nowMs) { return mayTell(toldOverrideMs, nowMs, kTellEveryMs); }

    void clear() {
        touchedMs.store(0, std::memory_order_relaxed);
        for (auto& each : decided) {
            std::ranges::for_each(each, &Counter::clear);
        }
        nearLimit.clear();
        newLogs.clear();
        overridden.clear();
        toldInvalidMs.store(0, std::memory_order_relaxed);
        toldOverrideMs.store(0, std::memory_order_relaxed);
    }

  private:
    static constexpr std::uint64_t kTellEveryMs = 1000;
};

/// The state of a server as seen by one worker.
enum class Reachability : std::uint8_t { Unknown, Up, Down };

/// The memory of a server, if known.
struct Health {
    std::atomic<std::uint64_t> dueMs{0};   // when it has to be asked again, by the first worker
    std::atomic<std::uint64_t> toldMs{0};  // when the following values were received; 0: never
    std::atomic<std::uint64_t> memoryUsed{0};
    std::atomic<std::uint64_t> memoryMax{0};
    std::atomic<std::uint64_t> evictedKeys{0};
    std::atomic<bool> evictionUnsafe{false};

    void clear() {
        for (std::atomic<std::uint64_t>* each : {&dueMs, &toldMs, &memoryUsed, &memoryMax, &evictedKeys}) {
            each->store(0, std::memory_order_relaxed);
        }
        evictionUnsafe.store(false, std::memory_order_relaxed);
    }
};

struct ServerCounters : Owned<340> {
    static constexpr std::size_t kMostWorkers = 64;  // more workers share entries

    Counter calls;     // sent
    Counter requests;  // in those calls
    Counter errors[kStoreErrors];
    Counter permits;          // that were granted
    Counter returnedPermits;  // of these, not used
    Counter lostTakeBacks;    // their entries, and those of settled costs: the logs stay as they are
    Histogram latency;
    Health health;
    std::atomic<bool> usesNative{false};          // by the worker that connected last
    std::atomic<std::uint64_t> configuration{0};  // the latest one that uses it
    std::atomic<Reachability> reachability[kMostWorkers] = {};

    void sent(std::size_t carried) {
        calls.add();
        requests.add(carried);
    }
    void failed(StoreError error) { errors[static_cast<std::size_t>(error)].add(); }
    void report(std::size_t worker, Reachability what) {
        reachability[worker % kMostWorkers].store(what, std::memory_order_relaxed);
    }

    void clear() {
        touchedMs.store(0, std::memory_order_relaxed);
        calls.clear();
        requests.clear();
        std::ranges::for_each(errors, &Counter::clear);
        permits.clear();
        returnedPermits.clear();
        lostTakeBacks.clear();
        latency.clear();
        health.clear();
        usesNative.store(false, std::memory_order_relaxed);
        configuration.store(0, std::memory_order_relaxed);
        for (std::atomic<Reachability>& one : reachability) {
            one.store(Reachability::Unknown, std::memory_order_relaxed);
        }
    }

    /// Down if one of the workers cannot reach it.
    Reachability reachabilityBy(std::size_t workers) const {
        Reachability all = Reachability::Unknown;
        for (const std::atomic<Reachability>& one : std::span(reachability).first(std::min(workers, kMostWorkers))) {
            all = std::max(all, one.load(std::memory_order_relaxed));
        }
        return all;
    }
};

}  // namespace sliding_log
