#include "limit/calendar.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "checks.hpp"
#include "operations.hpp"

namespace sliding_log {
namespace {

/// The period by the C library: timegm() carries a day or a month that is too large over to the next.
Period byTimegm(std::int64_t utcMs, std::string_view name) {
    const std::time_t second = utcMs / 1000;
    std::tm begin{};
    gmtime_r(&second, &begin);
    begin.tm_min = begin.tm_sec = 0;
    if (name != "hour") {
        begin.tm_hour = 0;
    }
    if (name == "week") {
        begin.tm_mday -= (begin.tm_wday + 6) % 7;
    } else if (name == "month") {
        begin.tm_mday = 1;
    }
    std::tm end = begin;
    end.tm_hour += name == "hour" ? 1 : 0;
    end.tm_mday += name == "day" ? 1 : name == "week" ? 7 : 0;
    end.tm_mon += name == "month" ? 1 : 0;
    return {std::int64_t{timegm(&begin)} * 1000, std::int64_t{timegm(&end)} * 1000};
}

void expectAsTimegm(std::int64_t utcMs) {
    for (const PeriodKind& kind : kPeriodKinds) {
        const Period expected = byTimegm(utcMs, kind.name);
        const Period found = periodAt(utcMs, kind.longestMs);
        ASSERT_EQ(found.begin, expected.begin) << kind.name << " at " << utcMs;
        ASSERT_EQ(found.end, expected.end) << kind.name << " at " << utcMs;
        ASSERT_LE(found.lengthMs(), kind.longestMs);
    }
}

TEST(Calendar, IsThatOfTimegmFrom1970To2400) {
    constexpr std::int64_t kDays = 430 * 365 + 105;
    for (std::int64_t day = 0; day < kDays; day++) {
        expectAsTimegm(day * kDayMs);
        expectAsTimegm(day * kDayMs + kDayMs - 1);
    }
    std::mt19937_64 random(1970);
    for (int i = 0; i < operations(100'000); i++) {
        expectAsTimegm(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kDays * kDayMs)));
    }
}

TEST(Calendar, KnowsLeapYears) {
    const auto daysOfMonth = [](std::int64_t utcMs) { return periodAt(utcMs, kLongestMonthMs).lengthMs() / kDayMs; };
    EXPECT_EQ(daysOfMonth(1'709'208'000'000), 29) << "2024-02-29T12:00:00Z";
    EXPECT_EQ(daysOfMonth(1'740'700'800'000), 28) << "2025-02-28T00:00:00Z";
    EXPECT_EQ(daysOfMonth(951'782'400'000), 29) << "2000-02-29T00:00:00Z";
    EXPECT_EQ(daysOfMonth(4'107'499'200'000), 28) << "2100-02-28T12:00:00Z";
}

TEST(Calendar, RepeatsAfter400YearsForEver) {
    constexpr std::int64_t kDecember = 1'764'547'200'000;  // 2025-12-01T00:00:00Z
    constexpr std::int64_t kLater = 79 * 146'097 * kDayMs;
    EXPECT_EQ(periodAt(kDecember + kLater, kLongestMonthMs),
              (Period{kDecember + kLater, kDecember + kLater + kLongestMonthMs}));
    EXPECT_EQ(periodAt(kDecember + kLater + kLongestMonthMs, kLongestMonthMs).begin,
              kDecember + kLater + kLongestMonthMs);
}

TEST(Calendar, WeeksBeginOnMonday) {
    constexpr std::int64_t kMonday = 1'767'571'200'000;  // 2026-01-05T00:00:00Z
    EXPECT_EQ(periodAt(kMonday, kWeekMs), (Period{kMonday, kMonday + kWeekMs}));
    EXPECT_EQ(periodAt(kMonday - 1, kWeekMs), (Period{kMonday - kWeekMs, kMonday}));
}

TEST(Calendar, NamesItsPeriods) {
    for (const PeriodKind& kind : kPeriodKinds) {
        EXPECT_EQ(periodNamed(kind.name), kind.longestMs);
        EXPECT_EQ(nameOfPeriod(kind.longestMs), kind.name);
    }
    EXPECT_EQ(periodNamed("year"), std::nullopt);
    EXPECT_EQ(periodNamed(""), std::nullopt);
    EXPECT_EQ(nameOfPeriod(kHourMs + 1), "");
}

}  // namespace
}  // namespace sliding_log
