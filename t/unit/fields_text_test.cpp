#include "limit/fields_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "limit/check.hpp"
#include "limit/int128.hpp"
#include "limit/number.hpp"

namespace sliding_log {
namespace {

TEST(Policy, ListsEachLimitOnce) {
    std::array<char, 256> out{};
    char* end = appendPolicyMember(out.data(), out.data(), "burst", {100, 60000});
    end = appendPolicyMember(out.data(), end, "daily", {1000, 86400000});
    end = appendMember(out.data(), end, R"("b";q=1;w=2)");
    EXPECT_EQ(std::string(out.data(), end), R"("burst";q=100;w=60, "daily";q=1000;w=86400, "b";q=1;w=2)");
    EXPECT_EQ(std::string(out.data(), appendMember(out.data(), out.data(), R"("b";q=1)")), R"("b";q=1)");
}

TEST(Policy, OmitsAWindowThatIsNotInWholeSeconds) {
    std::array<char, 256> out{};
    EXPECT_EQ(std::string(out.data(), appendPolicyMember(out.data(), out.data(), "a", {5, 500})), R"("a";q=5)");
    EXPECT_EQ(std::string(out.data(), appendPolicyMember(out.data(), out.data(), "a", {5, 1500})), R"("a";q=5)");
}

TEST(Policy, OfABucketIsItsBurstAndItsRefillTime) {
    std::array<char, 256> out{};
    const auto text = [&](std::int64_t limit, std::int64_t burst, std::int64_t windowMs) {
        return std::string(out.data(),
                           appendPolicyMember(out.data(), out.data(), "a", quotaOf(limit, burst, windowMs)));
    };
    EXPECT_EQ(text(2, 10, 60000), R"("a";q=10;w=300)");
    EXPECT_EQ(text(60, 10, 60000), R"("a";q=10;w=10)");
    EXPECT_EQ(text(60, 1, 60000), R"("a";q=1;w=1)");
    EXPECT_EQ(text(7, 10, 60000), R"("a";q=10)");
    EXPECT_EQ(text(120, 1, 60000), R"("a";q=1)");
    EXPECT_EQ(text(2, 3, 1000), R"("a";q=3)");
    EXPECT_EQ(text(2, 4, 500), R"("a";q=4;w=1)");
    EXPECT_EQ(text(5, 0, 60000), R"("a";q=5;w=60)") << "no burst given";
    EXPECT_EQ(text(0, 10, 60000), R"("a";q=0;w=60)") << "a limit of 0 denies all";
    EXPECT_EQ(text(1, kLargestCount, 366LL * 86400000), R"("a";q=1000000000000)")
        << "a refill time that is too long is omitted";
    EXPECT_EQ(text(kLargestCount, kLargestCount, 366LL * 86400000), R"("a";q=1000000000000;w=31622400)");
}

TEST(Policy, OfRequestsUnderWayHasNoTime) {
    std::array<char, 256> out{};
    EXPECT_EQ(std::string(out.data(), appendPolicyMember(out.data(), out.data(), "a", Quota::atOnce(50))),
              R"("a";q=50;qu="concurrent-requests")");
    EXPECT_EQ(std::string(out.data(), appendLimitMember(out.data(), out.data(), "a", 12, kNoTime)), R"("a";r=12)");
}

TEST(Limit, RoundsTheTimeUp) {
    std::array<char, 256> out{};
    const auto text = [&](std::int64_t resetMs) {
        return std::string(out.data(), appendLimitMember(out.data(), out.data(), "api", 994, resetMs));
    };
    EXPECT_EQ(text(11001), R"("api";r=994;t=12)");
    EXPECT_EQ(text(12000), R"("api";r=994;t=12)");
    EXPECT_EQ(text(1), R"("api";r=994;t=1)");
}

TEST(Members, FitTheirCapacity) {
    const std::string name(64, 'n');
    std::array<char, 512> out{};
    const auto capacity = static_cast<std::ptrdiff_t>(fieldMemberCapacity(name));
    char* begin = out.data();
    char* second = begin + 1;  // text precedes the member, so a comma is written
    EXPECT_LE(appendPolicyMember(begin, second, name, {kLargestCount, kLongestWaitMs / 1000 * 1000}) - second,
              capacity);
    EXPECT_LE(appendPolicyMember(begin, second, name, Quota::atOnce(kLargestCount)) - second, capacity);
    EXPECT_LE(appendLimitMember(begin, second, name, kLargestCount, 366LL * 86400000) - second, capacity);
}

TEST(RetryAfter, IsRoundedUpAndAtLeastOneSecond) {
    EXPECT_EQ(retryAfterSeconds(1), 1);
    EXPECT_EQ(retryAfterSeconds(1000), 1);
    EXPECT_EQ(retryAfterSeconds(1001), 2);
}

}  // namespace
}  // namespace sliding_log
