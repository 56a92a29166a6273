// Costs that are settled in the memory of the node: a lower one counts as if it had been known from the beginning, an
// additional one from the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "cells.hpp"
#include "checks.hpp"
#include "limit/bounds.hpp"
#include "limit/number.hpp"
#include "local/decide.hpp"
#include "operations.hpp"

namespace sliding_log {
namespace {

/// One log, in the memory of the test.
class SettledLog {
    auto grow(bool hasMemory) {
        return [this, hasMemory](LogState& state, std::size_t cells) {
            for (; hasMemory && cells > 0; cells--) {
                state.give(cells_.make());
            }
            return hasMemory;
        };
    }

  public:
    explicit SettledLog(const Check& check) : check_(check), state_(check, 0, place_) {}

    Verdict ask(std::uint64_t now, std::int64_t cost) {
        check_.cost = cost;
        LogState* states[] = {&state_};
        Verdict verdict;
        std::uint64_t loggedMs = 0;
        EXPECT_TRUE(decide({&check_, 1}, states, {&verdict, 1}, now, "name", loggedMs, grow(true)));
        cells_.take(state_.takeSpare(now));
        return verdict;
    }

    bool settle(std::uint64_t now, std::int64_t cost, std::int64_t settled, std::uint64_t taken,
                bool hasMemory = true) {
        Check check = check_;
        check.cost = cost;
        check.settled = settled;
        bool isLogged = true;
        if (check.owed() > 0) {
            isLogged = owe(state_, check, now, grow(hasMemory));
        } else {
            takeBack(state_, check, now, "name", taken, taken);
        }
        cells_.take(state_.takeSpare(now));
        return isLogged;
    }

  private:
    Check check_;
    std::array<std::uint8_t, 5> place_{};
    Cells cells_;
    LogState state_;
};

struct Request {
    std::uint64_t time;
    std::int64_t cost;
};

/// What is left, by all requests, and what was owed at their ends.
std::int64_t remaining(const Check& check, const std::vector<Request>& requests, std::uint64_t now) {
    const auto window = static_cast<std::uint64_t>(check.windowMs);
    const std::uint64_t begin = now - now % window;
    std::int64_t here = 0;
    std::int64_t before = 0;
    for (const Request& each : requests) {
        const bool isOfClock = check.algorithm != Algorithm::Compact;
        if (isOfClock ? each.time >= begin : each.time + window > now) {
            here += each.cost;
        } else if (check.algorithm == Algorithm::Counter && each.time >= begin - window) {
            before += each.cost;
        }
    }
    const auto rest = static_cast<std::int64_t>(window - now % window);
    const std::int64_t used = here + (before * rest + check.windowMs - 1) / check.windowMs;
    return std::max<std::int64_t>(check.limit - used, 0);
}

TEST(Settle, LessCountsFromTheBeginningAndMoreFromTheEnd) {
    std::mt19937 random(42);
    const auto upTo = [&](int most) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1)); };
    for (const Algorithm algorithm : {Algorithm::Compact, Algorithm::Counter, Algorithm::Quota}) {
        for (int round = 0; round < operations(20); round++) {
            const Check asked = check(algorithm, 1 + upTo(30), 100 + upTo(900));
            SettledLog log(asked);
            std::vector<Request> requests;
            std::vector<std::size_t> underWay;
            std::uint64_t now = 1'000'000;
            for (int i = 0; i < 2000; i++) {
                now += static_cast<std::uint64_t>(upTo(60));
                if (!underWay.empty() && upTo(1) == 0) {
                    const auto which = underWay.begin() + upTo(static_cast<int>(underWay.size()) - 1);
                    Request& request = requests[*which];
                    const std::int64_t settled = upTo(upTo(9) == 0 ? 3000 : 12);
                    EXPECT_TRUE(log.settle(now, request.cost, settled, request.time));
                    const std::int64_t owed = std::max<std::int64_t>(settled - request.cost, 0);
                    request.cost = std::min(request.cost, settled);
                    if (owed > 0) {
                        requests.push_back({now, owed});
                    }
                    underWay.erase(which);
                    continue;
                }
                const std::int64_t cost = upTo(4);
                const std::int64_t left = remaining(asked, requests, now);
                const Verdict verdict = log.ask(now, cost);
                // what is owed leaves no room even for a cost of 0
                ASSERT_TRUE(verdict.hasRoom() ? cost <= left : cost > left || left == 0)
                    << nameOf(algorithm) << ", request " << i;
                if (verdict.hasRoom()) {
                    requests.push_back({now, cost});
                    underWay.push_back(requests.size() - 1);
                }
                ASSERT_EQ(verdict.remaining, remaining(asked, requests, now)) << nameOf(algorithm) << ", request " << i;
            }
        }
    }
}

TEST(Settle, ABucketPaysFromTheEndOfTheRequestOn) {
    SettledLog log(check(Algorithm::Bucket, 10, 1000));  // a token in 100 ms
    log.ask(1000, 1);
    EXPECT_TRUE(log.settle(1500, 1, 5, 1000));
    EXPECT_EQ(log.ask(1500, 0).remaining, 6) << "it was idle before, which pays nothing";
    EXPECT_TRUE(log.settle(2000, 1, 41, 1000));
    EXPECT_EQ(log.ask(2000, 1).retryMs, 3100) << "30 owed";
    EXPECT_FALSE(log.ask(5099, 1).hasRoom());
    EXPECT_TRUE(log.ask(5100, 1).hasRoom());
}

TEST(Settle, AnAnswerLongerThanTheWindowIsNotFree) {
    for (const Algorithm algorithm : {Algorithm::Compact, Algorithm::Counter, Algorithm::Bucket, Algorithm::Quota}) {
        SettledLog log(check(algorithm, 10, 1000));
        log.ask(1000, 1);
        EXPECT_TRUE(log.settle(9500, 1, 26, 1000));
        EXPECT_FALSE(log.ask(9500, 1).hasRoom()) << nameOf(algorithm);
    }
}

TEST(Settle, MoreCountsBehindReservations) {
    for (const Algorithm algorithm : {Algorithm::Compact, Algorithm::Counter}) {
        Check four = check(algorithm, 4, 1000);
        four.delayMs = four.aheadMs = 5000;
        SettledLog log(four);
        log.ask(1000, 4);
        const std::int64_t heldMs = log.ask(1000, 4).delayMs;
        EXPECT_GE(heldMs, 1000) << nameOf(algorithm);
        EXPECT_TRUE(log.settle(1010, 4, 5, 1000));
        const std::int64_t nextMs = log.ask(1020, 4).delayMs + 20;
        EXPECT_GT(nextMs, heldMs + 900) << nameOf(algorithm);
        EXPECT_LE(nextMs, heldMs + 2000) << nameOf(algorithm);
    }
}

TEST(Settle, WithoutMemoryTheEstimateStands) {
    SettledLog log(check(Algorithm::Compact, 1000, 100'000));
    for (std::uint64_t now = 1000; now < 1003; now++) {
        log.ask(now, 1);
    }
    std::int64_t left = 997;
    std::uint64_t now = 2000;
    while (log.settle(now, 0, 1, now, false)) {
        left--;
        now += 500;
        ASSERT_LT(now, 100'000u);
    }
    EXPECT_EQ(log.ask(now, 0).remaining, left);
    EXPECT_TRUE(log.settle(now, 0, 1, now));
    EXPECT_EQ(log.ask(now, 0).remaining, left - 1);
}

TEST(Settle, ALogKeepsNoMoreEntriesThanItsFormInRedis) {
    SettledLog log(check(Algorithm::Compact, kLargestCount, 100'000));
    EXPECT_TRUE(log.settle(1000, 0, kLargestCount, 1000));
    EXPECT_TRUE(log.settle(1001, 0, kLargestCount, 1001));
    EXPECT_EQ(log.ask(1002, 0).remaining, 0);
    EXPECT_TRUE(log.settle(1003, kLargestCount, 0, 1001));
    EXPECT_EQ(log.ask(1004, 0).remaining, kLargestCount - (kMostOfLog - kLargestCount));
}

}  // namespace
}  // namespace sliding_log
