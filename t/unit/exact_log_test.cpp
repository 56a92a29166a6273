#include "local/exact_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "cells.hpp"

namespace sliding_log {
namespace {

/// A log with its own cells; it takes and returns them like a LogState.
class OwnedLog {
  public:
    explicit OwnedLog(std::size_t bytes = 40) : place_(bytes), log(place_.data(), bytes) {}

    void add(std::uint64_t now) { add(now, now, 1); }

    void add(std::uint64_t now, std::uint64_t time, std::size_t entries) {
        give(log.cellsToAdd(time, entries) + (time > now || isAhead(now) ? 1 : 0));
        log.add(time, entries);
        tidy(now);
    }

    /// Frees spare cells.
    void tidy(std::uint64_t now) { cells_.take(log.takeSpare(isAhead(now) ? 2 : 0)); }

    std::size_t cells() const { return cells_.out(); }

    std::vector<std::uint64_t> entries() const {
        std::vector<std::uint64_t> all;
        for (std::size_t i = 0; i < log.count(); i++) {
            all.push_back(log.at(i));
        }
        return all;
    }

  private:
    bool isAhead(std::uint64_t now) const { return log.count() > 0 && log.newest() > now; }

    void give(std::size_t wanted) {
        while (log.spares() < wanted) {
            log.give(cells_.make());
        }
    }

    std::vector<std::uint8_t> place_;
    Cells cells_;

  public:
    ExactLog log;
};

TEST(ExactLog, KeepsAnEntryForExactlyOneWindow) {
    OwnedLog owned;
    owned.add(1000);
    owned.log.prune(1999, 1000);
    EXPECT_EQ(owned.log.count(), 1u);
    owned.log.prune(2000, 1000);
    EXPECT_EQ(owned.log.count(), 0u);
}

TEST(ExactLog, TakesOneToTwoBytesForAnEntry) {
    OwnedLog owned;
    for (std::uint64_t now = 0; now < 60'000; now += 60) {
        owned.add(now);
    }
    EXPECT_EQ(owned.log.count(), 1000u);
    EXPECT_LE(owned.cells(), 6u) << "one byte for each entry, and 56 of 256 for the links";
    for (std::uint64_t now = 60'000; now < 1'060'000; now += 1000) {
        owned.add(now);
        owned.log.trim(1000);
        owned.tidy(now);
    }
    EXPECT_LE(owned.cells(), 12u);
}

TEST(ExactLog, AFewEntriesTakeNoCell) {
    OwnedLog owned;
    for (std::uint64_t now = 0; now < 40; now++) {
        owned.add(now);
    }
    EXPECT_EQ(owned.cells(), 0u);
    for (std::uint64_t now = 40; now < 200; now++) {
        owned.add(now);
    }
    EXPECT_EQ(owned.cells(), 1u);
    owned.log.prune(200, 20);
    owned.tidy(200);
    EXPECT_EQ(owned.cells(), 0u) << "few entries take no cell";
    EXPECT_EQ(owned.entries().size(), 19u);
}

TEST(ExactLog, GivesBackUnusedCells) {
    OwnedLog owned;
    std::vector<std::uint64_t> times;
    for (std::uint64_t now = 0; now < 100'000; now += 10) {
        owned.add(now);
        times.push_back(now);
    }
    const std::size_t most = owned.cells();
    std::shuffle(times.begin(), times.end(), std::mt19937(5));
    for (std::size_t left = times.size(); left > 0; left--) {
        EXPECT_TRUE(owned.log.remove(times[left - 1], 1));
        owned.tidy(100'000);
        ASSERT_LE(owned.cells(), left / 20 + 1) << left << " left, of " << most << " cells";
    }
    EXPECT_EQ(owned.cells(), 0u);
}

TEST(ExactLog, TrimsTheOldestEntries) {
    OwnedLog owned;
    for (std::uint64_t now = 1; now <= 5; now++) {
        owned.add(now);
    }
    owned.log.trim(2);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{4, 5}));
}

TEST(ExactLog, RemovesEntriesOfATime) {
    OwnedLog owned;
    for (std::uint64_t now : {10, 20, 20, 20, 30, 30}) {
        owned.add(now);
    }
    owned.log.remove(20, 1);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{10, 20, 20, 30, 30}));
    owned.log.remove(30, 2);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{10, 20, 20}));
    owned.log.remove(20, 5);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{10}));
    owned.log.remove(9, 1);
    EXPECT_EQ(owned.log.count(), 1u);
    owned.log.remove(10, 0);
    EXPECT_EQ(owned.log.count(), 1u);
    owned.log.remove(10, 1);
    EXPECT_EQ(owned.log.count(), 0u);
}

TEST(ExactLog, KeepsEntriesOfOtherTimes) {
    OwnedLog owned;
    owned.add(100);
    owned.add(100, 500, 2);
    owned.log.bringBack(110, 200);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{100, 110, 110}));
    EXPECT_FALSE(owned.log.remove(500, 2));
    EXPECT_FALSE(owned.log.remove(105, 1));
    EXPECT_TRUE(owned.log.remove(110, 3));
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{100}));
}

TEST(ExactLog, AddsManyEntriesOfOneTime) {
    OwnedLog owned;
    owned.add(7, 7, 1'000'000);
    EXPECT_EQ(owned.log.count(), 1'000'000u);
    EXPECT_EQ(owned.cells(), 0u) << "entries of one time are stored as a number";
    EXPECT_EQ(owned.log.at(999'999), 7u);
    owned.log.remove(7, 999'999);
    EXPECT_EQ(owned.log.count(), 1u);
}

TEST(ExactLog, AddsBeforeReservations) {
    OwnedLog owned;
    owned.add(1000);
    owned.add(1000, 2000, 2);
    owned.add(1000, 3000, 1);
    owned.add(1500, 1500, 2);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{1000, 1500, 1500, 2000, 2000, 3000}));
    EXPECT_EQ(owned.log.countAfter(1500), 3u);
    owned.log.prune(2500, 1000);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{2000, 2000, 3000}));
    owned.add(2600, 2600, 1);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{2000, 2000, 2600, 3000}));
    owned.log.trim(1);
    owned.add(2700, 2700, 3);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{2700, 2700, 2700, 3000}));
}

/// Random arrivals, reservations, time steps, trims and removals, in logs of a few and of some thousand entries,
/// compared with a simple log.
TEST(ExactLog, BehavesAsTheModel) {
    std::mt19937 random(42);
    const auto upTo = [&](std::uint64_t most) { return random() % (most + 1); };
    std::size_t largest = 0;
    for (int round = 0; round < 45; round++) {
        OwnedLog owned(random() % 80);
        std::deque<std::uint64_t> naive;
        std::uint64_t now = 1'000'000;
        const auto insert = [&](std::uint64_t time, std::size_t entries) {
            naive.insert(std::upper_bound(naive.begin(), naive.end(), time), entries, time);
        };
        const std::size_t length = std::size_t{20} << random() % 10;
        const std::uint64_t scale = round % 3 == 0 ? 1 : round % 3 == 1 ? 300 : 3'000'000'000;  // 1, 2, 4 bytes
        for (int step = 0; step < 4'000; step++) {
            const auto where = [&] { return "round " + std::to_string(round) + " step " + std::to_string(step); };
            now += random() % 2 == 0 ? upTo(50) * scale : 0;
            const std::uint64_t window = 1 + (1 + upTo(3)) * upTo(random() % 20 == 0 ? 10 : 4 * length) * scale;
            if (random() % 30 == 0) {
                owned.log.prune(now, window);
                while (!naive.empty() && naive.front() + window <= now) {
                    naive.pop_front();
                }
            }
            const std::size_t entries = random() % 4 == 0 ? 1 + upTo(length / 8) : 1;
            switch (random() % 40) {
                case 0: {
                    const std::size_t cap = random() % 8 == 0 ? upTo(length) : length + upTo(length);
                    owned.log.trim(cap);
                    while (naive.size() > cap) {
                        naive.pop_front();
                    }
                    break;
                }
                case 1:
                case 2:
                case 3:
                case 4: {
                    const std::uint64_t time =
                        random() % 3 == 0 || naive.empty() ? now - upTo(60) : naive[random() % naive.size()];
                    const auto begin = std::lower_bound(naive.begin(), naive.end(), time);
                    const auto end = std::upper_bound(naive.begin(), naive.end(), time);
                    const auto removed = std::min(end - begin, static_cast<std::ptrdiff_t>(entries));
                    ASSERT_EQ(owned.log.remove(time, entries), removed > 0) << where();
                    naive.erase(begin, begin + removed);
                    break;
                }
                case 5: {
                    const std::uint64_t farthest = now + upTo(100) * scale;
                    const bool isKept = owned.log.spares() == 0;  // no entry is ahead, or memory is missing
                    owned.log.bringBack(now, farthest);
                    const auto first = std::upper_bound(naive.begin(), naive.end(), farthest);
                    const auto moved = static_cast<std::size_t>(naive.end() - first);
                    if (!isKept) {
                        naive.erase(first, naive.end());
                        insert(now, moved);
                    }
                    break;
                }
                case 6:
                case 7:
                case 8:
                case 9:
                case 10:
                case 11: {
                    const std::uint64_t reservedAt = now + upTo(100) * scale;
                    owned.add(now, reservedAt, entries);
                    insert(reservedAt, entries);
                    break;
                }
                default:
                    owned.add(now, now, entries);
                    insert(now, entries);
            }
            owned.tidy(now);
            ASSERT_EQ(owned.log.count(), naive.size()) << where();
            for (int i = 0; i < 4 && !naive.empty(); i++) {
                const std::size_t place = i == 0 ? 0 : i == 1 ? naive.size() - 1 : random() % naive.size();
                ASSERT_EQ(owned.log.at(place), naive[place]) << where() << " place " << place;
            }
            const std::uint64_t time = random() % 2 == 0 ? now : now - 50 + upTo(200);
            ASSERT_EQ(owned.log.countAfter(time), naive.end() - std::upper_bound(naive.begin(), naive.end(), time))
                << where();
            if (step % 100 == 0 && naive.size() < 2'000) {
                ASSERT_EQ(owned.entries(), std::vector<std::uint64_t>(naive.begin(), naive.end())) << where();
            }
            largest = std::max(largest, owned.cells());
        }
        owned.log.clear();
        owned.tidy(now);
        ASSERT_EQ(owned.cells(), 0u);
    }
    EXPECT_GT(largest, 10u) << "cells";
}

}  // namespace
}  // namespace sliding_log
