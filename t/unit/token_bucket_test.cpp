#include "local/token_bucket.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "checks.hpp"
#include "limit/bounds.hpp"

namespace sliding_log {
namespace {

constexpr std::int64_t kAny = TokenBucket::kLeastTokens;

TEST(TokenBucket, IsFullAtFirstAndRefilledAtTheRate) {
    TokenBucket bucket(1000, 5);
    EXPECT_EQ(bucket.remaining(), 5);
    EXPECT_EQ(bucket.resetMs(10, 5, 1000), 1000) << "the reset of a full bucket is the window";
    bucket.take(5, kAny, 10, 5, 1000);
    EXPECT_EQ(bucket.remaining(), 0);
    EXPECT_EQ(bucket.msUntil(1, 10, 1000), 100);
    EXPECT_EQ(bucket.msUntil(3, 10, 1000), 300);
    EXPECT_EQ(bucket.fullAt(), 1500u);
    bucket.advance(1099, 10, 5, 1000);
    EXPECT_EQ(bucket.remaining(), 0);
    EXPECT_EQ(bucket.msUntil(1, 10, 1000), 1);
    bucket.advance(1100, 10, 5, 1000);
    EXPECT_EQ(bucket.remaining(), 1);
    EXPECT_EQ(bucket.resetMs(10, 5, 1000), 100);
    bucket.advance(9000, 10, 5, 1000);
    EXPECT_EQ(bucket.remaining(), 5);
}

TEST(TokenBucket, RoundsWaitsUp) {
    TokenBucket bucket(0, 1);
    bucket.take(1, kAny, 3, 1, 1000);
    EXPECT_EQ(bucket.msUntil(1, 3, 1000), 334);
    bucket.advance(333, 3, 1, 1000);
    EXPECT_EQ(bucket.msUntil(1, 3, 1000), 1);
    bucket.advance(334, 3, 1, 1000);
    EXPECT_EQ(bucket.msUntil(1, 3, 1000), 0);
}

TEST(TokenBucket, HasADebtForReservations) {
    TokenBucket bucket(0, 2);
    bucket.take(2, kAny, 2, 2, 1000);
    bucket.take(2, kAny, 2, 2, 1000);
    EXPECT_EQ(bucket.remaining(), 0);
    EXPECT_EQ(bucket.msUntil(0, 2, 1000), 1000) << "a cost of 0 waits for the end of the debt";
    EXPECT_EQ(bucket.msUntil(1, 2, 1000), 1500);
    bucket.takeBack(2);
    EXPECT_EQ(bucket.msUntil(1, 2, 1000), 500);
    bucket.takeBack(5);
    EXPECT_EQ(bucket.remaining(), 2) << "a bucket is at most full";
}

TEST(TokenBucket, TheDebtIsBounded) {
    TokenBucket bucket(0, 10);
    for (int i = 0; i < 100; i++) {
        bucket.take(3, -2, 10, 10, 1000);
    }
    EXPECT_EQ(bucket.msUntil(0, 10, 1000), 200);
    bucket.take(4, kAny, 10, 10, 1000);
    bucket.take(1, -2, 10, 10, 1000);
    EXPECT_EQ(bucket.msUntil(0, 10, 1000), 600) << "a reservation below the bound is kept";
}

TEST(TokenBucket, AFutureTimestampBecomesNow) {
    TokenBucket bucket(5000, 1);
    bucket.take(1, kAny, 1, 1, 1000);
    bucket.advance(2000, 1, 1, 1000);
    EXPECT_EQ(bucket.msUntil(1, 1, 1000), 1000);
    bucket.advance(3000, 1, 1, 1000);
    EXPECT_EQ(bucket.remaining(), 1);
}

TEST(TokenBucket, ChangedBurstAndWindowApply) {
    TokenBucket bucket(0, 10);
    bucket.advance(0, 10, 4, 1000);
    EXPECT_EQ(bucket.remaining(), 4);
    bucket.advance(0, 10, 9, 1000);
    EXPECT_EQ(bucket.remaining(), 9) << "a full bucket stays full";
    bucket.take(3, kAny, 10, 9, 1000);
    bucket.advance(0, 10, 20, 1000);
    EXPECT_EQ(bucket.remaining(), 17) << "taken tokens stay taken";
    bucket.advance(0, 10, 4, 1000);
    EXPECT_EQ(bucket.remaining(), 1);
    bucket.takeBack(3);
    bucket.take(4, kAny, 10, 4, 1000);
    bucket.advance(99, 10, 4, 1000);
    bucket.advance(99, 10, 4, 100);
    EXPECT_EQ(bucket.msUntil(1, 10, 100), 1);
}

TEST(TokenBucket, TheLargestNumbersDoNotOverflow) {
    TokenBucket bucket(0, kLargestCount);
    bucket.advance(kLongestTimeMs, kLargestCount, kLargestCount, kLongestTimeMs);
    bucket.take(kLargestCount, kAny, kLargestCount, kLargestCount, kLongestTimeMs);
    EXPECT_EQ(bucket.msUntil(kLargestCount, kLargestCount, kLongestTimeMs), kLongestTimeMs);
    EXPECT_EQ(bucket.msUntil(1, kLargestCount, kLongestTimeMs), 1);
    EXPECT_EQ(bucket.msUntil(kLargestCount, 1, kLongestTimeMs), kLongestWaitMs) << "3e22 ms are bounded";
    EXPECT_EQ(bucket.msUntil(1, 0, kLongestTimeMs), kLongestWaitMs) << "a bucket with a limit of 0 is not refilled";
    bucket.advance(1ULL << 62, kLargestCount, kLargestCount, kLongestTimeMs);
    EXPECT_EQ(bucket.remaining(), kLargestCount);
    for (int i = 0; i < 1'100'000; i++) {
        bucket.take(kLargestCount, kAny, kLargestCount, kLargestCount, kLongestTimeMs);
    }
    EXPECT_EQ(bucket.msUntil(kLargestCount, kLargestCount, kLongestTimeMs), kLongestWaitMs);
}

/// Compared with a bucket that counts drops: it gets `limit` drops each ms, `window` drops are a token.
TEST(TokenBucket, BehavesAsTheModel) {
    std::mt19937 random(7);
    for (int round = 0; round < 300; round++) {
        const std::int64_t limit = 1 + static_cast<std::int64_t>(random() % 20);
        const std::int64_t burst = 1 + static_cast<std::int64_t>(random() % 30);
        const std::int64_t window = 1 + static_cast<std::int64_t>(random() % 50);
        std::uint64_t now = random() % 1000;
        TokenBucket bucket(now, burst);
        std::int64_t drops = burst * window;
        for (int step = 0; step < 200; step++) {
            for (auto ms = random() % 20; ms > 0; ms--, now++) {
                drops = std::min(drops + limit, burst * window);
            }
            bucket.advance(now, limit, burst, window);
            const auto cost = static_cast<std::int64_t>(random() % 6);
            std::int64_t wait = 0;
            while (drops + wait * limit < cost * window) {
                wait++;
            }
            ASSERT_EQ(bucket.msUntil(cost, limit, window), wait);
            if (wait == 0 || random() % 4 == 0) {
                bucket.take(cost, kAny, limit, burst, window);
                drops -= cost * window;
            } else if (random() % 3 == 0) {
                bucket.takeBack(cost);
                drops = std::min(drops + cost * window, burst * window);
            }
            ASSERT_EQ(bucket.remaining(), drops < 0 ? 0 : drops / window);
        }
    }
}

}  // namespace
}  // namespace sliding_log
