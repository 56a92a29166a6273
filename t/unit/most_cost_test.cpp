#include "limit/most_cost.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

TEST(MostCost, BoundsTheEntriesOfOneRequest) {
    EXPECT_EQ(mostCost(Algorithm::Log, 0), 1000);
    EXPECT_EQ(mostCost(Algorithm::Sampled, 1), mostCost(Algorithm::Log, 0));
    EXPECT_EQ(mostCost(Algorithm::Sampled, 1'000'000), 1'000'000'000);
}

TEST(MostCost, IsUnboundedIfEntriesAreNotStored) {
    EXPECT_EQ(mostCost(Algorithm::Compact, 0), kLargestCount);
    EXPECT_EQ(mostCost(Algorithm::Counter, 0), kLargestCount);
    EXPECT_EQ(mostCost(Algorithm::Bucket, 0), kLargestCount);
}

}  // namespace
}  // namespace sliding_log
