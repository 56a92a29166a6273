#include "local/blocks.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

Check withTimes(std::initializer_list<std::int64_t> times) {
    Check check;
    for (std::int64_t ms : times) {
        check.blockTimes.ms[check.blockTimes.count++] = ms;
    }
    check.blockMs = check.blockTimes.at(1);
    return check;
}

Check withTime(std::int64_t ms) {
    Check check;
    check.blockMs = ms;
    return check;
}

TEST(Blocks, AreNoneAtFirst) {
    const Blocks blocks;
    EXPECT_EQ(blocks.until(), 0U);
    EXPECT_EQ(blocks.endsAt(), 0U);
}

TEST(Blocks, LastTheNextTimeWithinTheLengthOfTheLastOne) {
    const Check check = withTimes({10, 100, 300});
    Blocks blocks;
    blocks.begin(check, 1000);
    EXPECT_EQ(blocks.until(), 1010U);
    EXPECT_EQ(blocks.since(), 1000U);
    EXPECT_EQ(blocks.endsAt(), 1020U);
    blocks.begin(check, 1020);
    EXPECT_EQ(blocks.until(), 1120U);
    blocks.begin(check, 1120);
    EXPECT_EQ(blocks.until(), 1420U);
    blocks.begin(check, 1720);
    EXPECT_EQ(blocks.until(), 2020U) << "the last one repeats";
    blocks.begin(check, 2321);
    EXPECT_EQ(blocks.until(), 2331U) << "1 ms later than the length of the last one, the first one follows";
}

TEST(Blocks, RememberTheOneBeforeWhenOneEndsEarly) {
    const Check check = withTimes({10, 100, 300});
    Blocks blocks;
    blocks.begin(check, 1000);
    blocks.begin(check, 1015);
    blocks.undo(1016);
    EXPECT_LE(blocks.until(), 1016U);
    EXPECT_EQ(blocks.endsAt(), 1020U);
    blocks.begin(check, 1020);
    EXPECT_EQ(blocks.until(), 1120U);
    blocks.undo(1021);
    EXPECT_EQ(blocks.endsAt(), 0U) << "the one before is not remembered any more";
    blocks.begin(check, 1022);
    EXPECT_EQ(blocks.until(), 1032U);
}

TEST(Blocks, OfOneTimeAreNotRemembered) {
    const Check list = withTimes({10, 100});
    Blocks blocks;
    blocks.begin(withTime(10), 1000);
    EXPECT_EQ(blocks.endsAt(), 1010U);
    blocks.begin(list, 1012);
    EXPECT_EQ(blocks.until(), 1022U) << "a block with one time is not the preceding one";
    blocks.begin(withTime(3), 1023);
    EXPECT_EQ(blocks.until(), 1026U);
    EXPECT_EQ(blocks.endsAt(), 1032U) << "it does not change what is remembered";
    blocks.begin(list, 1027);
    EXPECT_EQ(blocks.until(), 1127U);
}

TEST(Blocks, HaveTheLongestTimes) {
    constexpr std::int64_t kLongest = std::int64_t{366} * 86'400'000;
    const Check check = withTimes({kLongest, kLongest});
    Blocks blocks;
    constexpr std::uint64_t kNow = 1'800'000'000'000;
    blocks.begin(check, kNow);
    EXPECT_EQ(blocks.until(), kNow + kLongest);
    EXPECT_EQ(blocks.since(), kNow);
    EXPECT_EQ(blocks.endsAt(), kNow + 2 * kLongest);
}

}  // namespace
}  // namespace sliding_log
