#include "limit/override.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>

#include "limit/check.hpp"
#include "limit/options_text.hpp"
#include "limit/override_record.hpp"
#include "metrics/seen_overrides.hpp"

namespace sliding_log {
namespace {

using What = Override::What;

TEST(Override, IsReadFromTheNumbersOfTheScripts) {
    const auto read = [](std::int64_t said, std::int64_t untilMs = 0) {
        Override out;
        EXPECT_TRUE(Override::read(said, untilMs, out)) << said;
        return out;
    };
    EXPECT_EQ(read(0).what, What::Limit);
    EXPECT_EQ(read(500).limit, 500);
    EXPECT_EQ(read(kLargestCount).limit, kLargestCount);
    EXPECT_EQ(read(-1).what, What::None);
    EXPECT_EQ(read(-2).what, What::Allow);
    EXPECT_EQ(read(-3, 1'800'000'000'000).what, What::Deny);
    EXPECT_EQ(read(-3, 1'800'000'000'000).untilMs, 1'800'000'000'000);
    EXPECT_EQ(read(-4).what, What::Broken);
    EXPECT_EQ(read(-5).what, What::Forbidden);
    Override out;
    for (const std::int64_t said : {std::int64_t{-6}, kLargestCount + 1, INT64_MIN, INT64_MAX}) {
        EXPECT_FALSE(Override::read(said, 0, out)) << said;
    }
    EXPECT_FALSE(Override::read(1, -1, out));
    EXPECT_FALSE(Override::read(1, 1'000'000'000'000'000, out));
}

TEST(Override, KeepsTheProportionOfABucket) {
    EXPECT_EQ(burstUnder(50, 10, 10), 50) << "as large as the limit";
    EXPECT_EQ(burstUnder(10, 8, 5), 16);
    EXPECT_EQ(burstUnder(1, 8, 5), 2) << "rounded up";
    EXPECT_EQ(burstUnder(0, 8, 5), 0);
    EXPECT_EQ(burstUnder(7, 8, 0), 7);
    EXPECT_EQ(burstUnder(kLargestCount, kLargestCount, 1), kLargestCount);
}

TEST(OverrideText, HasThePartsOfARecord) {
    const auto record =
        OverrideText::read("limit=500 until=1795342930906 since=17 by=a=b why=any until=text ", RecordOf::Key);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->override.what, What::Limit);
    EXPECT_EQ(record->override.limit, 500);
    EXPECT_EQ(record->override.untilMs, 1795342930906);
    EXPECT_EQ(record->since, "17");
    EXPECT_EQ(record->by, "a=b");
    EXPECT_EQ(record->why, "any until=text ");
    EXPECT_EQ(OverrideText::read("allow until=0 since=1 by= why=", RecordOf::Key)->override.what, What::Allow);
    EXPECT_EQ(OverrideText::read("deny until=5 since=1 by= why=", RecordOf::Key)->override.what, What::Deny);
}

TEST(OverrideText, OfANameMayBeADryRun) {
    const char* text = "dry-run until=0 since=1 by=a why=b";
    EXPECT_FALSE(OverrideText::read(text, RecordOf::Key));
    EXPECT_EQ(OverrideText::read(text, RecordOf::Name)->override.what, What::DryRun);
    EXPECT_EQ(OverrideText::read("deny until=5 since=1 by= why=", RecordOf::Name)->override.what, What::Deny);
}

TEST(OverrideText, IsNoneOfAnotherForm) {
    for (const char* text :
         {"", "allow", "deny until=0 since=1 by=a", "allowed until=0 since=1 by=a why=",
          "limit=allow until=0 since=1 by=a why=", "limit=1000000000001 until=0 since=1 by=a why=",
          "allow until= since=1 by=a why=", "allow until=0 since= by=a why=",
          "allow until=1234567890123456 since=1 by=a why=", "allow until=0 since=1 by=a\tb why=",
          " allow until=0 since=1 by=a why=", "allow  until=0 since=1 by=a why=", "allow until=-5 since=1 by=a why="}) {
        EXPECT_FALSE(OverrideText::read(text, RecordOf::Key)) << text;
    }
}

TEST(Override, ChangesWhatACheckMayTake) {
    Check check;
    check.limit = 5;
    check.cost = 9;
    EXPECT_TRUE(check.neverHasRoom(Override{}));
    EXPECT_FALSE(check.neverHasRoom(Override{What::Limit, 9}));
    EXPECT_TRUE(check.neverHasRoom(Override{What::Limit, 8}));
    EXPECT_TRUE(check.neverHasRoom(Override{What::Limit, 0}));
}

TEST(Override, IsAnOptionOfTheScript) {
    Check check;
    check.hasOverride = true;
    EXPECT_EQ(OptionsText(check).view(), "override");
    EXPECT_EQ(OptionsText(check, 5).view(), "permits=5 override");
    check.ofName = {What::Deny, 0, 1795342930906};
    EXPECT_EQ(OptionsText(check).view(), "override deny=1795342930906");
    check.ofName = {What::Allow, 0, 0};
    EXPECT_EQ(OptionsText(check).view(), "override allow=0");
    check.ofName = {};
    check.algorithm = Algorithm::Bucket;
    check.burst = 3;
    EXPECT_EQ(OptionsText(check, 0, true).view(), "override told burst=3");
}

class SeenOverridesTest : public testing::Test {
  protected:
    alignas(64) std::array<std::byte, 8192> memory{};
    SeenOverrides seen{memory.data(), memory.size()};
};

TEST_F(SeenOverridesTest, AreForgottenWhenTheyEnd) {
    seen.note("api:{a", 1, {What::Limit, 50, 0}, 1000);
    seen.note("api:{b", 2, {What::Deny, 0, 5000}, 2000);
    seen.note("api:{c", 3, {}, 3000);
    auto list = seen.list(3000, 4999);
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[0].limit + " " + list[0].value, "api b");
    EXPECT_EQ(list[1].override.limit, 50);
    EXPECT_EQ(seen.list(3000, 5000).size(), 1U) << "it has ended";
    EXPECT_EQ(seen.list(1000 + SeenOverrides::kForgottenAfterMs, 0).size(), 1U) << "it was not met for long";
    seen.note("api:{b", 2, {}, 4000);
    EXPECT_EQ(seen.list(4000, 0).size(), 1U) << "it was unset";
}

TEST_F(SeenOverridesTest, KeepThoseMetLast) {
    for (std::size_t i = 0; i < 1000; i++) {
        seen.note("api:{" + std::to_string(i), i * 0x9E3779B97F4A7C15, {What::Allow}, i + 1);
    }
    const auto list = seen.list(1000, 0);
    ASSERT_GE(list.size(), 8U);
    EXPECT_EQ(list.front().value, "999");
    seen.note("api:{999", 999 * 0x9E3779B97F4A7C15, {What::Limit, 7}, 2000);
    EXPECT_EQ(seen.list(2000, 0).size(), list.size()) << "the same key is there once";
    EXPECT_EQ(seen.list(2000, 0).front().override.limit, 7);
}

TEST(SeenOverrides, NeedNoMemory) {
    SeenOverrides none;
    none.note("api:{a", 1, {What::Allow}, 1);
    EXPECT_TRUE(none.list(1, 1).empty());
    SeenOverrides alsoNone(nullptr, 0);
    alsoNone.note("api:{a", 1, {What::Allow}, 1);
    EXPECT_TRUE(alsoNone.list(1, 1).empty());
}

}  // namespace
}  // namespace sliding_log
