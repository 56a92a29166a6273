// Requests under way in the memory of the node: an entry counts for a lease after it was renewed last.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "cells.hpp"
#include "local/decide.hpp"

namespace sliding_log {
namespace {

constexpr std::int64_t kLeaseMs = 1000;

/// One log, in the memory of the test.
class HeldLog {
    auto grow() {
        return [this](LogState& state, std::size_t cells) {
            for (; hasMemory && cells > 0; cells--) {
                state.give(cells_.make());
            }
            return hasMemory;
        };
    }

  public:
    /// True if it is admitted.
    bool ask(std::uint64_t now, std::int64_t cost) {
        check_.cost = cost;
        LogState* states[] = {&state_};
        Verdict verdict;
        std::uint64_t loggedMs = 0;
        EXPECT_TRUE(decide({&check_, 1}, states, {&verdict, 1}, now, "name", loggedMs, grow()));
        cells_.take(state_.takeSpare(now));
        return verdict.hasRoom();
    }

    bool renewAt(std::uint64_t now, std::uint64_t loggedMs, std::int64_t entries) {
        const bool isLogged = renew(state_, check_, now, loggedMs, entries, grow());
        cells_.take(state_.takeSpare(now));
        return isLogged;
    }

    void end(std::uint64_t now, std::uint64_t loggedMs, std::int64_t cost) {
        check_.cost = cost;
        takeBack(state_, check_, now, "name", loggedMs, loggedMs);
        cells_.take(state_.takeSpare(now));
    }

    bool hasMemory = true;

  private:
    static Check ofInflight() {
        Check check;
        check.key = "key";
        check.algorithm = Algorithm::Inflight;
        check.limit = 20;
        check.windowMs = kLeaseMs;
        return check;
    }

    Check check_ = ofInflight();
    std::array<std::uint8_t, 5> place_{};
    Cells cells_;
    LogState state_{check_, 0, place_};
};

struct Entry {
    std::uint64_t renewed;
    std::int64_t cost;
};

TEST(Renew, AnEntryCountsForALeaseAfterTheLatestRenewal) {
    std::mt19937 random(7);
    HeldLog log;
    std::vector<Entry> underWay;
    std::vector<Entry> abandoned;
    std::uint64_t now = 1'000'000;
    std::size_t denied = 0;
    for (int step = 0; step < 50'000; step++) {
        now += random() % 20;
        const auto used = [&] {
            std::int64_t sum = 0;
            for (const std::vector<Entry>* some : {&underWay, &abandoned}) {
                for (const Entry& each : *some) {
                    sum += each.renewed + kLeaseMs > now ? each.cost : 0;
                }
            }
            return sum;
        };
        const unsigned kind = random() % 100;
        if (kind < 50 || underWay.empty()) {
            const auto cost = static_cast<std::int64_t>(1 + random() % 3);
            const bool fits = used() + cost <= 20;
            ASSERT_EQ(log.ask(now, cost), fits) << "step " << step;
            denied += fits ? 0 : 1;
            if (fits) {
                underWay.push_back({now, cost});
            }
        } else if (kind < 95) {
            const std::size_t which = random() % underWay.size();
            const Entry entry = underWay[which];
            underWay.erase(underWay.begin() + static_cast<std::ptrdiff_t>(which));
            if (random() % 10 == 0) {
                abandoned.push_back(entry);
            } else {
                log.end(now, entry.renewed, entry.cost);
            }
        } else {
            for (Entry& entry : underWay) {
                ASSERT_TRUE(log.renewAt(now, entry.renewed, entry.cost));
                entry.renewed = now;
            }
        }
        std::erase_if(abandoned, [&](const Entry& each) { return each.renewed + kLeaseMs <= now; });
    }
    EXPECT_GT(denied, 1000);
}

TEST(Renew, EntersWhatIsNotThere) {
    HeldLog log;
    EXPECT_TRUE(log.renewAt(5000, 0, 25)) << "also beyond the limit";
    EXPECT_FALSE(log.ask(5000, 1));
    EXPECT_TRUE(log.renewAt(5500, 5000, 25));
    EXPECT_FALSE(log.ask(6499, 1));
    EXPECT_TRUE(log.ask(6500, 1));
}

TEST(Renew, NeedsMemoryForWhatIsNotThere) {
    HeldLog log;
    log.hasMemory = false;
    bool isLogged = true;
    for (std::uint64_t now = 1000; isLogged && now < 1900; now += 7) {
        isLogged = log.renewAt(now, 0, 1);
    }
    EXPECT_FALSE(isLogged) << "entries of many times do not fit the first cell";
}

}  // namespace
}  // namespace sliding_log
