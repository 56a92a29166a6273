#include "redis/backoff.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

TEST(Backoff, DoublesFromMinToMax) {
    Backoff backoff(50, 5000);
    for (std::uint64_t expected : {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
        EXPECT_EQ(backoff.next(0), expected);
    }
    backoff.reset();
    EXPECT_EQ(backoff.next(0), 50u);
}

TEST(Backoff, SpreadsOverTheUpperHalf) {
    for (std::uint64_t random = 0; random < 1000; random++) {
        Backoff backoff(100, 100);
        const std::uint64_t delay = backoff.next(random);
        EXPECT_GE(delay, 50u);
        EXPECT_LE(delay, 100u);
    }
}

TEST(Backoff, NeverIsZeroForAMinimumOfOne) {
    Backoff backoff(1, 1);
    EXPECT_EQ(backoff.next(0), 1u);
    EXPECT_EQ(backoff.next(12345), 1u);
}

}  // namespace
}  // namespace sliding_log
