#include "local/window_counts.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cells.hpp"
#include "checks.hpp"
#include "limit/bounds.hpp"

namespace sliding_log {
namespace {

/// Counts with their own memory; it grows as in the store.
class OwnedCounts {
  public:
    WindowCounts counts;

    void add(std::uint64_t time, std::uint64_t cost) {
        for (std::size_t cells = counts.cellsToAdd(time, cost); cells > 0; cells--) {
            counts.give(cells_.make());
        }
        counts.add(time, cost);
        cells_.take(counts.takeSpare());
    }

    void remove(std::uint64_t time, std::uint64_t cost) {
        counts.remove(time, cost);
        cells_.take(counts.takeSpare());
    }

    std::size_t cells() const { return cells_.out(); }

  private:
    Cells cells_;
};

TEST(WindowCounts, WeightThePreviousWindowByItsOverlap) {
    OwnedCounts owned;
    WindowCounts& counts = owned.counts;
    counts.advance(10'000, 1000, 0);
    EXPECT_TRUE(counts.isEmpty());
    EXPECT_EQ(counts.remaining(10, 10'000), 10);
    owned.add(10'000, 8);
    EXPECT_EQ(counts.remaining(10, 10'999), 2) << "the current window counts completely";
    counts.advance(11'000, 1000, 0);
    EXPECT_EQ(counts.remaining(10, 11'000), 2);
    EXPECT_EQ(counts.remaining(10, 11'001), 2);
    EXPECT_EQ(counts.remaining(10, 11'125), 3) << "8 * 0.875 = 7";
    EXPECT_EQ(counts.remaining(10, 11'124), 2);
    EXPECT_FALSE(counts.isAtMost(10 - 3, 11'124));
    EXPECT_TRUE(counts.isAtMost(10 - 3, 11'125));
    EXPECT_EQ(counts.fallsTo(10 - 3, 11'000), 11'125u);
    EXPECT_EQ(counts.fallsTo(10 - 10, 11'000), 12'000u);
    EXPECT_EQ(counts.endsAt(), 12'000u);
    counts.advance(12'000, 1000, 0);
    EXPECT_TRUE(counts.isEmpty());
    EXPECT_EQ(counts.endsAt(), 0u);
}

TEST(WindowCounts, ReturnTheFirstMsWithRoom) {
    OwnedCounts owned;
    owned.counts.advance(5000, 1000, 0);
    owned.add(5500, 3);
    // 3 * (1 - share) + 1 <= 3 from a share of 1/3 on: not at 333 ms
    EXPECT_EQ(owned.counts.fallsTo(3 - 1, 5500), 6334u);
    owned.counts.advance(6333, 1000, 0);
    EXPECT_FALSE(owned.counts.isAtMost(3 - 1, 6333));
    EXPECT_TRUE(owned.counts.isAtMost(3 - 1, 6334));
}

TEST(WindowCounts, KeepFutureWindows) {
    OwnedCounts owned;
    WindowCounts& counts = owned.counts;
    counts.advance(1000, 1000, 10'000);
    owned.add(1000, 2);
    owned.add(5500, 2);
    owned.add(3500, 1);
    owned.add(3600, 1);
    EXPECT_EQ(counts.latest(), 5500u);
    EXPECT_EQ(counts.endsAt(), 7000u);
    counts.advance(3700, 1000, 10'000);
    EXPECT_EQ(counts.remaining(4, 3700), 0) << "reservations count";
    counts.remove(3600, 1);
    EXPECT_EQ(counts.remaining(4, 3700), 1);
    counts.remove(5500, 2);
    EXPECT_EQ(counts.fallsTo(4 - 4, 5500), 5500u);
    counts.remove(9999, 1);
    counts.remove(1000, 1);
    EXPECT_EQ(counts.remaining(4, 3700), 3) << "an expired window is not changed";
}

TEST(WindowCounts, TakeMemoryForFutureWindowsOnly) {
    OwnedCounts owned;
    owned.counts.advance(0, 1000, 1'000'000);
    owned.add(0, 5);
    EXPECT_EQ(owned.cells(), 0u);
    for (std::uint64_t time = 0; time < 1'000'000; time += 500) {
        owned.add(time, 1);
    }
    EXPECT_GT(owned.cells(), 1u);
    EXPECT_LE(owned.cells(), 2'000u / 100);
    for (std::uint64_t time = 0; time < 1'000'000; time += 500) {
        owned.remove(time, 1);
    }
    EXPECT_EQ(owned.cells(), 0u);
    EXPECT_EQ(owned.counts.remaining(10, 0), 5);
}

TEST(WindowCounts, AFarReservationNeedsNoSearch) {
    OwnedCounts owned;
    owned.counts.advance(0, 1, kLongestTimeMs);
    owned.add(0, 1);
    owned.add(kLongestTimeMs - 5, 1);
    EXPECT_EQ(owned.counts.fallsTo(0, 0), static_cast<std::uint64_t>(kLongestTimeMs - 3));
    EXPECT_EQ(owned.counts.fallsTo(1, 0), 2u);
}

TEST(WindowCounts, CountsTooFarAheadCountAsNow) {
    OwnedCounts owned;
    WindowCounts& counts = owned.counts;
    counts.advance(1000, 1000, 10'000);
    owned.add(3500, 1);
    owned.add(9500, 2);
    counts.advance(1100, 1000, 5000);
    EXPECT_EQ(counts.remaining(5, 1100), 2);
    EXPECT_EQ(counts.latest(), 1100u);
    EXPECT_EQ(counts.endsAt(), 5000u);
}

TEST(WindowCounts, AChangedWindowKeepsTheCounts) {
    OwnedCounts owned;
    WindowCounts& counts = owned.counts;
    counts.advance(10'000, 1000, 0);
    owned.add(10'000, 2);
    counts.advance(11'000, 1000, 5000);
    owned.add(11'000, 3);
    owned.add(13'000, 1);
    counts.advance(11'500, 60'000, 5000);
    EXPECT_EQ(counts.remaining(10, 11'500), 4);
}

TEST(WindowCounts, TheLargestNumbersDoNotOverflow) {
    OwnedCounts owned;
    WindowCounts& counts = owned.counts;
    const auto begin = static_cast<std::uint64_t>(60 * kLongestTimeMs);
    counts.advance(begin, kLongestTimeMs, 0);
    owned.add(begin, kLargestCount);
    EXPECT_EQ(counts.remaining(kLargestCount, begin), 0);
    EXPECT_EQ(counts.fallsTo(kLargestCount - 1, begin), begin + kLongestTimeMs + 1);
    EXPECT_EQ(counts.fallsTo(kLargestCount - kLargestCount, begin), begin + 2 * kLongestTimeMs);
    counts.advance(begin + kLongestTimeMs + kLongestTimeMs / 2, kLongestTimeMs, 0);
    EXPECT_EQ(counts.remaining(kLargestCount, begin + kLongestTimeMs + kLongestTimeMs / 2), kLargestCount / 2);
    for (int i = 0; i < 3'000'000; i++) {
        counts.addUpTo(UINT64_MAX, kLargestCount);
    }
    EXPECT_EQ(counts.remaining(kLargestCount, begin + kLongestTimeMs + kLongestTimeMs / 2), 0);
    EXPECT_EQ(counts.fallsTo(kLargestCount - kLargestCount, begin + kLongestTimeMs + kLongestTimeMs / 2),
              begin + 3 * kLongestTimeMs);
}

/// Compared with counts by window that are searched ms by ms.
TEST(WindowCounts, BehaveAsTheModel) {
    std::mt19937 random(11);
    for (int round = 0; round < 200; round++) {
        const std::uint64_t window = 1 + random() % 40;
        const auto limit = static_cast<std::int64_t>(1 + random() % 15);
        std::uint64_t now = 100 + random() % 1000;
        OwnedCounts owned;
        std::map<std::uint64_t, std::int64_t> naive;
        const auto hasRoom = [&](std::uint64_t time, std::int64_t cost) {
            const auto length = static_cast<std::int64_t>(window);
            const std::int64_t rest = length - static_cast<std::int64_t>(time % window);
            std::int64_t all = cost;
            for (auto from = naive.lower_bound(time / window); from != naive.end(); ++from) {
                all += from->second;
            }
            return naive[time / window - 1] * rest + all * length <= limit * length;
        };
        for (int step = 0; step < 200; step++) {
            now += random() % 3 == 0 ? random() % (2 * window) : random() % 3;
            owned.counts.advance(now, window, 1'000'000);
            const auto cost = static_cast<std::int64_t>(random()) % (limit + 1);
            const std::uint64_t from = now + random() % (3 * window);
            std::uint64_t first = from;
            while (!hasRoom(first, cost)) {
                first++;
            }
            ASSERT_EQ(owned.counts.fallsTo(limit - cost, from), first) << "round " << round << " step " << step;
            ASSERT_EQ(owned.counts.isAtMost(limit - cost, now), hasRoom(now, cost));
            std::int64_t remaining = 0;
            while (hasRoom(now, remaining + 1)) {
                remaining++;
            }
            ASSERT_EQ(owned.counts.remaining(limit, now), remaining);
            const std::uint64_t time = random() % 3 == 0 ? from : now;
            if (random() % 4 == 0) {
                std::int64_t& count = naive[time / window];
                owned.remove(time, static_cast<std::uint64_t>(cost));
                count = std::max<std::int64_t>(count - cost, 0);
            } else {
                owned.add(time, static_cast<std::uint64_t>(cost));
                naive[time / window] += cost;
            }
        }
    }
}

}  // namespace
}  // namespace sliding_log
