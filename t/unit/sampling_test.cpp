#include "limit/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "limit/unique_id.hpp"

namespace sliding_log {
namespace {

TEST(Sampling, DependsOnTheNameOnly) {
    // SHA-1 of "abc" begins a9993e364706: as a number 186475638834950, and 5 modulo 9
    EXPECT_EQ(sampledEntries(5, 9, "abc"), 0);
    EXPECT_EQ(sampledEntries(6, 9, "abc"), 1);
    EXPECT_EQ(sampledEntries(14, 9, "abc"), 1);
    EXPECT_EQ(sampledEntries(15, 9, "abc"), 2);
}

TEST(Sampling, LogsAllForOneInOne) {
    EXPECT_EQ(sampledEntries(0, 1, "abc"), 0);
    EXPECT_EQ(sampledEntries(1, 1, "abc"), 1);
    EXPECT_EQ(sampledEntries(1'000'000'000'000, 1, "abc"), 1'000'000'000'000);
}

TEST(Sampling, LogsMultiplesOfNExactly) {
    UniqueIds ids(0x123456789abc);
    for (int i = 0; i < 1000; i++) {
        EXPECT_EQ(sampledEntries(0, 10, ids.next().view()), 0);
        EXPECT_EQ(sampledEntries(30, 10, ids.next().view()), 3);
    }
}

/// Consecutive names: one in N, within five standard deviations of a binomial count.
TEST(Sampling, LogsOneInN) {
    for (const std::int64_t sample : {2, 10, 1000}) {
        for (const std::int64_t cost : {1, 7, 1003}) {
            UniqueIds ids(0xfedcba987654);
            constexpr int kRequests = 10'000;
            double entries = 0;
            for (int i = 0; i < kRequests; i++) {
                entries += static_cast<double>(sampledEntries(cost, sample, ids.next().view()));
            }
            const double share = static_cast<double>(cost % sample) / static_cast<double>(sample);
            const double expected = kRequests * (static_cast<double>(cost / sample) + share);
            EXPECT_NEAR(entries, expected, 5 * std::sqrt(kRequests * share * (1 - share)) + 0.5);
        }
    }
}

}  // namespace
}  // namespace sliding_log
