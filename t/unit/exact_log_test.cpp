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

    void add(std::uint64_t now) {
        if (log.isFull()) {
            auto larger = std::make_unique<std::uint8_t[]>(log.capacity() == 0 ? 16 : log.capacity() * 2);
            log.moveTo(larger.get(), log.capacity() == 0 ? 16 : log.capacity() * 2);
            memory_ = std::move(larger);
        }
        log.add(now);
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

TEST(ExactLog, RemovesOneEntryOfATime) {
    Owned owned;
    for (std::uint64_t now : {1, 2, 2, 3}) {
        owned.add(now);
    }
    owned.log.remove(2);
    EXPECT_EQ(owned.entries(), (std::vector<std::uint64_t>{1, 2, 3}));
    owned.log.remove(7);
    owned.log.remove(0);
    EXPECT_EQ(owned.log.count(), 3u);
}

/// Against the plainest log there is, over random arrivals, steps of time, trims and removals.
TEST(ExactLog, IsANaiveLog) {
    std::mt19937 random(42);
    Owned owned;
    std::deque<std::uint64_t> naive;
    std::uint64_t now = 1'000'000;
    for (int step = 0; step < 200'000; step++) {
        // numbers of one, two and more bytes
        const std::uint64_t scale = step % 1000 < 500 ? 1 : step % 1000 < 900 ? 300 : 3'000'000'000;
        now += random() % 4 == 0 ? random() % 50 * scale : 0;
        const std::uint64_t window = 1 + random() % 300 * scale;
        owned.log.prune(now, window);
        while (!naive.empty() && naive.front() + window <= now) {
            naive.pop_front();
        }
        if (random() % 50 == 0) {
            const std::size_t cap = random() % 20;
            owned.log.trim(cap);
            while (naive.size() > cap) {
                naive.pop_front();
            }
        } else if (random() % 10 == 0) {
            const std::uint64_t time =
                random() % 2 == 0 || naive.empty() ? now - random() % 60 : naive[random() % naive.size()];
            owned.log.remove(time);
            if (const auto found = std::find(naive.begin(), naive.end(), time); found != naive.end()) {
                naive.erase(found);
            }
        } else {
            owned.add(now);
            naive.push_back(now);
        }
        ASSERT_EQ(owned.entries(), std::vector<std::uint64_t>(naive.begin(), naive.end())) << "step " << step;
    }
}

}  // namespace
}  // namespace sliding_log
