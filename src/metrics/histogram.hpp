// A histogram of durations, as in Prometheus. Plain data for memory shared by workers; pure.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace sliding_log {

/// A sum; many processes may add at the same time without loss.
class Counter {
  public:
    void add(std::uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
    std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }
    void clear() { value_.store(0, std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

class Histogram {
  public:
    struct Bucket {
        std::uint64_t mostNs;
        std::string_view text;  // the same in seconds
    };

    /// From a Redis on this machine to the longest reasonable `timeout`; longer durations are in none of the buckets.
    static constexpr Bucket kBuckets[] = {
        {100'000, "0.0001"},   {250'000, "0.00025"}, {500'000, "0.0005"},   {1'000'000, "0.001"}, {2'500'000, "0.0025"},
        {5'000'000, "0.005"},  {10'000'000, "0.01"}, {25'000'000, "0.025"}, {50'000'000, "0.05"}, {100'000'000, "0.1"},
        {250'000'000, "0.25"}, {500'000'000, "0.5"}, {1'000'000'000, "1"},
    };
    static constexpr std::size_t kBucketCount = std::size(kBuckets);

    void observe(std::uint64_t ns) {
        std::size_t bucket = 0;
        while (bucket < kBucketCount && ns > kBuckets[bucket].mostNs) {
            bucket++;
        }
        counts_[bucket].add();
        sumNs_.add(ns);
    }

    /// The number of durations up to the bound of each bucket; the last number is of all.
    std::array<std::uint64_t, kBucketCount + 1> cumulated() const {
        std::array<std::uint64_t, kBucketCount + 1> counts{};
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < counts.size(); i++) {
            counts[i] = sum += counts_[i].get();
        }
        return counts;
    }

    std::uint64_t sumNs() const { return sumNs_.get(); }

    void clear() {
        std::ranges::for_each(counts_, &Counter::clear);
        sumNs_.clear();
    }

  private:
    std::array<Counter, kBucketCount + 1> counts_;
    Counter sumNs_;
};

}  // namespace sliding_log
