#include "limit/number.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sliding_log {
namespace {

TEST(ParseCount, AcceptsWholeNumbers) {
    EXPECT_EQ(parseCount("0"), 0);
    EXPECT_EQ(parseCount("007"), 7);
    EXPECT_EQ(parseCount("1000000000000"), kLargestCount);
}

TEST(ParseCount, RefusesEverythingElse) {
    for (const char* text :
         {"", " 1", "1 ", "-1", "+1", "1.5", "1e3", "0x10", "ten", "1000000000001", "99999999999999999999999", "１"}) {
        EXPECT_EQ(parseCount(text), std::nullopt) << text;
    }
}

TEST(DecimalText, WritesTheWholeRange) {
    EXPECT_EQ(DecimalText(0).view(), "0");
    EXPECT_EQ(DecimalText(-1).view(), "-1");
    EXPECT_EQ(DecimalText(INT64_MIN).view(), "-9223372036854775808");
    EXPECT_EQ(DecimalText(INT64_MAX).view(), "9223372036854775807");
}

TEST(DecimalText, IsIndependentOfItsCopies) {
    DecimalText kept(0);
    for (std::int64_t number : {12345, 6}) {
        kept = DecimalText(number);
        EXPECT_EQ(kept.view(), std::to_string(number));
    }
}

}  // namespace
}  // namespace sliding_log
