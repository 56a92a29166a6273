#include "limit/fields_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "limit/number.hpp"
#include "limit/verdict.hpp"

namespace sliding_log {
namespace {

TEST(Policy, ListsEachLimitOnce) {
    std::array<char, 256> out{};
    char* end = appendPolicyMember(out.data(), out.data(), "burst", 100, 60000);
    end = appendPolicyMember(out.data(), end, "daily", 1000, 86400000);
    end = appendMember(out.data(), end, R"("b";q=1;w=2)");
    EXPECT_EQ(std::string(out.data(), end), R"("burst";q=100;w=60, "daily";q=1000;w=86400, "b";q=1;w=2)");
    EXPECT_EQ(std::string(out.data(), appendMember(out.data(), out.data(), R"("b";q=1)")), R"("b";q=1)");
}

TEST(Policy, LeavesOutAWindowThatIsNoWholeNumberOfSeconds) {
    std::array<char, 256> out{};
    EXPECT_EQ(std::string(out.data(), appendPolicyMember(out.data(), out.data(), "a", 5, 500)), R"("a";q=5)");
    EXPECT_EQ(std::string(out.data(), appendPolicyMember(out.data(), out.data(), "a", 5, 1500)), R"("a";q=5)");
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

TEST(Members, FitTheirCapacityAtTheLargest) {
    const std::string name(64, 'n');
    std::array<char, 512> out{};
    const auto capacity = static_cast<std::ptrdiff_t>(fieldMemberCapacity(name));
    char* begin = out.data();
    char* second = begin + 1;  // as if something stood before it, so that the comma is written
    EXPECT_LE(appendPolicyMember(begin, second, name, kLargestCount, 366LL * 86400000) - second, capacity);
    EXPECT_LE(appendLimitMember(begin, second, name, kLargestCount, 366LL * 86400000) - second, capacity);
}

TEST(RetryAfter, IsAtLeastOneSecondAndRoundedUp) {
    EXPECT_EQ(retryAfterSeconds(1), 1);
    EXPECT_EQ(retryAfterSeconds(1000), 1);
    EXPECT_EQ(retryAfterSeconds(1001), 2);
}

}  // namespace
}  // namespace sliding_log
