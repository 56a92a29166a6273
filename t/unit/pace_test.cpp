#include "store/pace.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

/// Sends as many take-backs as the pace permits, and returns their number.
std::size_t fill(Pace& pace) {
    const std::size_t sent = pace.room();
    pace.sent(sent);
    return sent;
}

/// All take-backs on the wire are answered, each after this time.
void execute(Pace& pace, std::size_t sent, std::uint64_t tookNs) {
    for (std::size_t i = 0; i < sent; i++) {
        pace.ended(1);
        pace.executed(tookNs);
    }
}

/// Ten times: as many as the pace permits are sent, and answered after this time.
void executeAll(Pace& pace, std::uint64_t tookNs) {
    for (int trip = 0; trip < 10; trip++) {
        execute(pace, fill(pace), tookNs);
    }
}

/// Replies took 1 ms, and take 50 since: one at a time may be sent.
void slowDown(Pace& pace) {
    execute(pace, fill(pace), kMs);
    for (int i = 0; i < 5; i++) {
        pace.sent(1);
        execute(pace, 1, 50 * kMs);
    }
}

TEST(Pace, BeginsWithTheMost) {
    Pace pace;
    EXPECT_TRUE(pace.isIdle());
    EXPECT_EQ(fill(pace), Pace::kMost);
    EXPECT_EQ(pace.room(), 0u);
}

TEST(Pace, WaitsForRoomForSome) {
    Pace pace;
    EXPECT_EQ(fill(pace), Pace::kMost);
    for (std::size_t answered = 1; answered < Pace::kMost / 2; answered++) {
        execute(pace, 1, kMs);
        EXPECT_EQ(pace.room(), 0u);
    }
    execute(pace, 1, kMs);
    EXPECT_EQ(pace.room(), Pace::kMost / 2);
}

TEST(Pace, SlowRepliesHalveItDownToOne) {
    Pace pace;
    execute(pace, fill(pace), kMs);
    pace.sent(1);
    execute(pace, 1, 50 * kMs);
    EXPECT_EQ(fill(pace), Pace::kMost / 2);
    execute(pace, Pace::kMost / 2, 50 * kMs);
    EXPECT_EQ(fill(pace), 1u);
}

TEST(Pace, FastRepliesRaiseItByOne) {
    Pace pace;
    slowDown(pace);
    pace.sent(1);
    execute(pace, 1, kMs);
    EXPECT_EQ(fill(pace), 2u);
    execute(pace, 2, 2 * kMs);
    EXPECT_EQ(fill(pace), 4u);
}

TEST(Pace, ServerFarAwayHasAsManyASecond) {
    Pace pace;
    std::size_t most = Pace::kMost;
    for (int trip = 0; trip < 10; trip++) {
        EXPECT_EQ(pace.room(), most) << trip;
        execute(pace, fill(pace), 20 * kMs);
        most = std::min(2 * most, 20 * Pace::kMost);
    }
    EXPECT_EQ(fill(pace), 20 * Pace::kMost);
    execute(pace, Pace::kMost / 2, 40 * kMs);
    EXPECT_EQ(fill(pace), Pace::kMost / 2) << "the way may take so long";
    execute(pace, Pace::kMost / 2, 45 * kMs);
    EXPECT_EQ(fill(pace), 0u) << "others wait there";
}

TEST(Pace, IsBoundedHoweverFarAServerIs) {
    Pace pace;
    executeAll(pace, 3000 * kMs);
    EXPECT_EQ(fill(pace), Pace::kMostMs * Pace::kMost);
}

TEST(Pace, WaitsForNoMoreThanSomeWhereManyAreUnderWay) {
    Pace pace;
    executeAll(pace, 80 * kMs);
    const std::size_t sent = fill(pace);
    EXPECT_EQ(sent, Pace::kMostMs * Pace::kMost);
    execute(pace, Pace::kMost / 2 - 1, 80 * kMs);
    EXPECT_EQ(pace.room(), 0u);
    execute(pace, 1, 80 * kMs);
    EXPECT_EQ(pace.room(), Pace::kMost / 2);
}

TEST(Pace, ServerThatMovesFarAwayIsNotSlowForever) {
    Pace pace;
    execute(pace, fill(pace), kMs / 2);
    for (int i = 0; i < 2000; i++) {
        pace.sent(1);
        execute(pace, 1, 80 * kMs);
    }
    EXPECT_GT(fill(pace), 50 * Pace::kMost) << "nearly as many as where it was far from the beginning";
}

TEST(Pace, SeveralInOneCallCountAsThatMany) {
    Pace pace;
    pace.sent(8);
    EXPECT_EQ(pace.room(), Pace::kMost - 8);
    pace.ended(8);
    pace.executed(kMs);
    EXPECT_TRUE(pace.isIdle());
    EXPECT_EQ(pace.room(), Pace::kMost);
}

TEST(Pace, HasNoRoomWhileMoreAreUnderWayThanItMaySend) {
    Pace pace;
    pace.sent(8);
    pace.ended(8);
    pace.executed(kMs);
    pace.sent(12);
    pace.sent(2);
    pace.ended(2);
    pace.executed(50 * kMs);
    EXPECT_EQ(pace.room(), 0u);
}

/// As many requests end as others begin.
TEST(Pace, ReleasesGoAsRequestsAreAdmittedHoweverSlowRepliesAre) {
    Pace pace;
    slowDown(pace);
    EXPECT_EQ(fill(pace), 1u);
    EXPECT_EQ(pace.roomForReleases(), 0u);
    pace.admitted(3);
    EXPECT_EQ(pace.room(), 0u) << "they make no room for others";
    EXPECT_EQ(pace.roomForReleases(), 3u);
    pace.sent(2);
    EXPECT_EQ(pace.roomForReleases(), 1u);
    pace.admitted(1000);
    EXPECT_EQ(pace.roomForReleases(), Pace::kMost) << "what was admitted long ago is not saved up";
    pace.sent(Pace::kMost);
    EXPECT_EQ(pace.roomForReleases(), 0u);
}

TEST(Pace, LostOnesMakeRoom) {
    Pace pace;
    for (std::size_t sent = fill(pace); sent > 0; sent--) {
        pace.ended(1);
    }
    EXPECT_TRUE(pace.isIdle());
    EXPECT_EQ(fill(pace), Pace::kMost);
}

}  // namespace
}  // namespace sliding_log
