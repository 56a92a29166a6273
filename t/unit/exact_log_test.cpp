#include "limit/exact_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace sliding_log {
namespace {

/// A log with memory of its own, which grows as the store's does.
class Owned {
  public:
    ExactLog log;

    void add(std::uint64_t now) { add(now, now, 1); }

    void add(std::uint64_t now, std::uint64_t time, std::size_t entries) {
        const std::size_t capacity = log.capacityToAdd(now, time, entries);
        if (capacity != log.capacity()) {
            auto larger = std::make_unique<std::uint8_t[]>(capacity);
            log.moveTo(larger.get(), capacity);
            memory_ = std::move(larger);
        }
        log.add(time, entries);
    }

    std::vector<std::uint64_t> entries() const {
        std::vector<std::uint64_t> all;
        for (std::size_t i = 0; i < log.count(); i++) {
            all.push_back(log.at(i));
        }
        return all;
    }

  private:
    std::unique_ptr<std::uint8_t[]> memory_;
};

TEST(ExactLog, KeepsAnEntryForExactlyOneWindow) {
    Owned owned;
    owned.add(1000);
    owned.log.prune(1999, 1000);
    EXPECT_EQ(owned.log.count(), 1u);
    owned.log.prune(2000, 1000);
    EXPECT_EQ(owned.log.count(), 0u);
}

TEST(ExactLog, TakesOneToTwoBytesAnEntry) {
    Owned owned;
    for (std::uint64_t now = 0; now < 60'000; now += 60) {
        owned.add(now);
    }
    EXPECT_EQ(owned.log.count(), 1000u);
    EXPECT_LE(owned.log.capacity(), 1024u);
}

TEST(ExactLog, TrimsTheOldest) {
    Owned owned;
    for (std::uint64_t now = 1; now <= 5; now++) {
        owned.add(now);
    }
    owned.log.trim(2);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{4, 5}));
}

TEST(ExactLog, RemovesEntriesOfATime) {
    Owned owned;
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

TEST(ExactLog, RemovesNothingOfAnotherTime) {
    Owned owned;
    owned.add(100);
    owned.add(100, 500, 2);
    owned.log.bringBack(110, 200);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{100, 110, 110}));
    EXPECT_FALSE(owned.log.remove(500, 2));
    EXPECT_FALSE(owned.log.remove(105, 1));
    EXPECT_TRUE(owned.log.remove(110, 3));
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{100}));
}

TEST(ExactLog, AddsManyOfOneTime) {
    Owned owned;
    owned.add(7, 7, 1'000'000);
    EXPECT_EQ(owned.log.count(), 1'000'000u);
    EXPECT_LE(owned.log.capacity(), 1u << 20);
    EXPECT_EQ(owned.log.at(999'999), 7u);
    owned.log.remove(7, 999'999);
    EXPECT_EQ(owned.log.count(), 1u);
}

TEST(ExactLog, AddsInFrontOfReservations) {
    Owned owned;
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

/// Against the plainest log there is, over random arrivals, reservations, steps of time, trims and removals.
TEST(ExactLog, IsANaiveLog) {
    std::mt19937 random(42);
    Owned owned;
    std::deque<std::uint64_t> naive;
    std::uint64_t now = 1'000'000;
    const auto insert = [&](std::uint64_t time, std::size_t entries) {
        naive.insert(std::upper_bound(naive.begin(), naive.end(), time), entries, time);
    };
    for (int step = 0; step < 50'000; step++) {
        // numbers of one, two and more bytes
        const std::uint64_t scale = step % 1000 < 500 ? 1 : step % 1000 < 900 ? 300 : 3'000'000'000;
        now += random() % 4 == 0 ? random() % 50 * scale : 0;
        const std::uint64_t window = 1 + random() % 300 * scale;
        owned.log.prune(now, window);
        while (!naive.empty() && naive.front() + window <= now) {
            naive.pop_front();
        }
        const std::size_t entries = random() % 4 == 0 ? random() % 5 : 1;
        switch (random() % 40) {
            case 0: {
                const std::size_t cap = random() % 20;
                owned.log.trim(cap);
                while (naive.size() > cap) {
                    naive.pop_front();
                }
                break;
            }
            case 1:
            case 2:
            case 3: {
                const std::uint64_t time =
                    random() % 2 == 0 || naive.empty() ? now - random() % 60 : naive[random() % naive.size()];
                const auto begin = std::lower_bound(naive.begin(), naive.end(), time);
                const auto end = std::upper_bound(naive.begin(), naive.end(), time);
                const auto removed = std::min(end - begin, static_cast<std::ptrdiff_t>(entries));
                ASSERT_EQ(owned.log.remove(time, entries), removed > 0) << "step " << step;
                naive.erase(begin, begin + removed);
                break;
            }
            case 4: {
                const std::uint64_t farthest = now + random() % 100 * scale;
                owned.log.bringBack(now, farthest);
                const auto first = std::upper_bound(naive.begin(), naive.end(), farthest);
                const auto moved = static_cast<std::size_t>(naive.end() - first);
                naive.erase(first, naive.end());
                insert(now, moved);
                break;
            }
            case 5:
            case 6:
            case 7:
            case 8: {
                const std::uint64_t slot = now + random() % 100 * scale;
                owned.add(now, slot, entries + 1);
                insert(slot, entries + 1);
                break;
            }
            default:
                owned.add(now, now, entries + 1);
                insert(now, entries + 1);
        }
        ASSERT_EQ(owned.entries(), std::vector<std::uint64_t>(naive.begin(), naive.end())) << "step " << step;
        ASSERT_EQ(owned.log.countAfter(now), naive.end() - std::upper_bound(naive.begin(), naive.end(), now));
    }
}

}  // namespace
}  // namespace sliding_log
