#include "redis/backoff.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace sliding_log {
namespace {

TEST(Backoff, DoublesFromMinToMax) {
    Backoff backoff(150, 5000);
    for (std::uint64_t expected : {150, 300, 600, 1200, 2400, 4800, 5000, 5000}) {
        EXPECT_EQ(backoff.next(0), expected);
    }
    backoff.reset();
    EXPECT_EQ(backoff.next(0), 150u);
}

TEST(Backoff, SpreadsOverTheUpperHalf) {
    for (std::uint64_t random = 0; random < 1000; random++) {
        Backoff backoff(200, 200);
        const std::uint64_t delay = backoff.next(random);
        EXPECT_GE(delay, 100u);
        EXPECT_LE(delay, 200u);
    }
}

TEST(Backoff, SpreadsShortDelaysOverATenthOfASecond) {
    bool seen[kSpreadMs + 1] = {};
    for (std::uint64_t random = 0; random < 1000; random++) {
        Backoff backoff(50, 5000);
        for (const std::uint64_t delay : {backoff.next(random), backoff.next(random)}) {
            ASSERT_LE(delay, kSpreadMs);
            seen[delay] = true;
        }
        EXPECT_GE(backoff.next(random), 100u);
    }
    EXPECT_TRUE(std::ranges::all_of(seen, std::identity()));
}

TEST(Backoff, IsNeverLongerThanMax) {
    for (std::uint64_t random = 0; random < 1000; random++) {
        Backoff backoff(1, 4);
        EXPECT_LE(backoff.next(random), 4u);
    }
}

}  // namespace
}  // namespace sliding_log
