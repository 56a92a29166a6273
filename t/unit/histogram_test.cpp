#include "metrics/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sliding_log {
namespace {

TEST(Histogram, BucketsAreSortedAndNamedInSeconds) {
    EXPECT_TRUE(std::ranges::is_sorted(Histogram::kBuckets, {}, &Histogram::Bucket::mostNs));
    for (const Histogram::Bucket& each : Histogram::kBuckets) {
        EXPECT_DOUBLE_EQ(std::stod(std::string(each.text)), static_cast<double>(each.mostNs) / 1e9);
    }
}

TEST(Histogram, ABucketIncludesItsBound) {
    Histogram histogram;
    histogram.observe(0);
    histogram.observe(100'000);
    histogram.observe(100'001);
    histogram.observe(1'000'000'000);
    histogram.observe(1'000'000'001);
    const auto counts = histogram.cumulated();
    EXPECT_EQ(counts[0], 2U);
    EXPECT_EQ(counts[1], 3U);
    EXPECT_EQ(counts[Histogram::kBucketCount - 1], 4U);
    EXPECT_EQ(counts.back(), 5U);
    EXPECT_EQ(histogram.sumNs(), 2'000'200'002U);
}

}  // namespace
}  // namespace sliding_log
