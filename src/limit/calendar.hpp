// The periods of the UTC calendar: algorithm=quota. lua/calendar_quota.lua computes the same.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sliding_log {

/// From `begin` to before `end`, in ms since 1970, UTC.
struct Period {
    std::int64_t begin;
    std::int64_t end;

    constexpr std::int64_t lengthMs() const { return end - begin; }
    friend constexpr bool operator==(const Period&, const Period&) = default;
};

/// A value of period=. Its longest length identifies it, so that it can be the window of a check.
struct PeriodKind {
    std::string_view name;
    std::int64_t longestMs;
};

inline constexpr std::int64_t kDayMs = 86'400'000;
inline constexpr std::int64_t kWeekMs = 7 * kDayMs;
inline constexpr std::int64_t kLongestMonthMs = 31 * kDayMs;

inline constexpr std::array kPeriodKinds = {
    PeriodKind{"hour", kDayMs / 24},
    PeriodKind{"day", kDayMs},
    PeriodKind{"week", kWeekMs},
    PeriodKind{"month", kLongestMonthMs},
};

/// nullopt: there is none of this name.
constexpr std::optional<std::int64_t> periodNamed(std::string_view name) {
    const auto* const found = std::ranges::find(kPeriodKinds, name, &PeriodKind::name);
    return found == kPeriodKinds.end() ? std::nullopt : std::optional(found->longestMs);
}

/// Empty: none has this length.
constexpr std::string_view nameOfPeriod(std::int64_t longestMs) {
    const auto* const found = std::ranges::find(kPeriodKinds, longestMs, &PeriodKind::longestMs);
    return found == kPeriodKinds.end() ? std::string_view() : found->name;
}

/// The period of this kind at this time, which is not before 1970. Weeks begin on Monday. Any other length has periods
/// of that length since 1970.
constexpr Period periodAt(std::int64_t utcMs, std::int64_t longestMs) {
    using namespace std::chrono;
    if (longestMs == kLongestMonthMs) {
        constexpr std::int64_t kEraMs = 146'097 * kDayMs;  // 400 years: then the calendar repeats
        const std::int64_t era = utcMs - utcMs % kEraMs;   // years of std::chrono end with 32767
        const year_month_day date(floor<days>(sys_time<milliseconds>(milliseconds(utcMs - era))));
        const year_month month = date.year() / date.month();
        const auto first = [era](year_month of) {
            return era + duration_cast<milliseconds>(sys_days(of / day(1)).time_since_epoch()).count();
        };
        return {first(month), first(month + months(1))};
    }
    const std::int64_t monday = longestMs == kWeekMs ? 4 * kDayMs : 0;  // 1970 began on a Thursday
    const std::int64_t into = ((utcMs - monday) % longestMs + longestMs) % longestMs;
    return {utcMs - into, utcMs - into + longestMs};
}

}  // namespace sliding_log
