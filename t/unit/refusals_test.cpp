#include "servers/refusals.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

constexpr const char* kDown = "CLUSTERDOWN The cluster is down";
constexpr const char* kSlotDown = "CLUSTERDOWN Hash slot not served";
constexpr const char* kUnderWay = "TRYAGAIN Multiple keys request during rehashing of slot";

class RefusalsTest : public ::testing::Test {
  protected:
    bool turnsAway(const int& server, std::uint16_t hashSlot) { return refusals.turnsAway(&server, hashSlot, now, 0); }

    Refusals refusals;
    std::uint64_t now = 1000;
    int left = 0;
    int right = 0;
};

TEST_F(RefusalsTest, ARefusalByAServerAppliesToAllItsHashSlots) {
    refusals.add(&left, 7, kDown, now);
    EXPECT_TRUE(turnsAway(left, 7));
    EXPECT_TRUE(turnsAway(left, 8));
    EXPECT_FALSE(turnsAway(right, 7));
    EXPECT_TRUE(refusals.isLasting(&left, 8, kDown, now));
    EXPECT_FALSE(refusals.isLasting(&right, 8, kDown, now));
}

TEST_F(RefusalsTest, ARefusalOfAHashSlotAppliesToThisHashSlot) {
    for (const char* reply : {kSlotDown, "MOVED 7 127.0.0.1:6379"}) {
        refusals.add(&left, 7, reply, now);
        EXPECT_TRUE(turnsAway(left, 7));
        EXPECT_FALSE(turnsAway(left, 8));
        EXPECT_FALSE(turnsAway(right, 7));
        refusals.served(&left, 8, now);
        EXPECT_TRUE(turnsAway(left, 7));
        refusals.served(&left, 7, now);
        EXPECT_TRUE(refusals.isEmpty());
    }
}

TEST_F(RefusalsTest, KeysOfAMovingHashSlotAreAsked) {
    refusals.add(&left, 7, kUnderWay, now);
    EXPECT_FALSE(turnsAway(left, 7));
    refusals.served(&left, 7, now);
    for (int i = 0; i < 5; i++) {
        now += 9000;
        EXPECT_TRUE(refusals.isLasting(&left, 7, kUnderWay, now));
    }
    now += 10'000;
    EXPECT_FALSE(refusals.isLasting(&left, 7, kUnderWay, now));
    EXPECT_TRUE(refusals.isEmpty());
}

TEST_F(RefusalsTest, ARefusedHashSlotIsAskedLessAndLessOften) {
    refusals.add(&left, 7, kDown, now);
    const std::uint64_t end = now + 10'000;
    int asked = 0;
    for (; now < end; now++) {
        asked += turnsAway(left, 7) ? 0 : 1;
    }
    EXPECT_GE(asked, 38);
    EXPECT_LE(asked, 46);
}

TEST_F(RefusalsTest, AServedCallEndsARefusal) {
    refusals.add(&left, 7, kDown, now);
    refusals.served(&left, 8, now);
    EXPECT_FALSE(turnsAway(left, 7));
    EXPECT_TRUE(refusals.isEmpty());
}

TEST_F(RefusalsTest, AServerIsErased) {
    refusals.add(&left, 7, kDown, now);
    refusals.add(&left, 7, kUnderWay, now);
    refusals.add(&right, 7, kDown, now);
    refusals.erase(&left);
    EXPECT_FALSE(turnsAway(left, 7));
    EXPECT_TRUE(turnsAway(right, 7));
}

}  // namespace
}  // namespace sliding_log
