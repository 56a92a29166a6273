#include "metrics/lease_claims.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sliding_log {
namespace {

class LeaseClaimsTest : public testing::Test {
  protected:
    void claim(std::int64_t ms, pid_t worker) {
        claims_.claim(ms, now_, worker, [this](pid_t one) { return dead_.contains(one); });
    }

    LeaseClaims claims_;
    std::set<pid_t> dead_;
    std::uint64_t now_ = 1'000'000;
};

TEST_F(LeaseClaimsTest, TheLongestCountsForAll) {
    EXPECT_EQ(claims_.longest(500), 500);
    claim(30'000, 1);
    claim(1000, 2);
    EXPECT_EQ(claims_.longest(1000), 30'000);
    EXPECT_EQ(claims_.longest(60'000), 60'000);
}

TEST_F(LeaseClaimsTest, ThatOfADeadWorkerEnds) {
    claim(30'000, 1);
    claim(1000, 2);
    dead_.insert(1);
    now_ += LeaseClaims::kMayBeDeadMs - 1;
    claim(1000, 2);
    EXPECT_EQ(claims_.longest(1000), 30'000);
    now_++;
    claim(1000, 2);
    EXPECT_EQ(claims_.longest(1000), 1000);
}

TEST_F(LeaseClaimsTest, AnotherWorkerWithThatLengthKeepsIt) {
    claim(30'000, 1);
    dead_.insert(1);
    now_ += LeaseClaims::kMayBeDeadMs;
    claim(30'000, 3);
    claim(1000, 2);
    EXPECT_EQ(claims_.longest(1000), 30'000);
}

TEST_F(LeaseClaimsTest, AWorkerThatStandsStillKeepsItForALease) {
    claim(30'000, 1);
    now_ += LeaseClaims::kMayBeDeadMs + 29'999;
    claim(1000, 2);
    EXPECT_EQ(claims_.longest(1000), 30'000);
    now_++;
    claim(1000, 2);
    EXPECT_EQ(claims_.longest(1000), 1000);
}

TEST_F(LeaseClaimsTest, AFormerProcessOfTheSameIdIsDead) {
    claim(30'000, 1);
    now_ += LeaseClaims::kMayBeDeadMs;
    claim(1000, 1);
    EXPECT_EQ(claims_.longest(1000), 1000);
}

TEST_F(LeaseClaimsTest, TheLongestOfManyAreKept) {
    for (std::int64_t ms = 1; ms <= 20; ms++) {
        claim(ms * 1000, static_cast<pid_t>(ms));
        EXPECT_EQ(claims_.longest(0), ms * 1000);
    }
    claim(100, 21);
    EXPECT_EQ(claims_.longest(0), 20'000);
}

}  // namespace
}  // namespace sliding_log
