// The bounds of numbers: the same for directives, arguments of the tool, contents of logs and replies. The scripts have
// them from lua/prelude.lua.
#pragma once

#include <cstdint>

namespace sliding_log {

/// The largest limit, cap and cost: exact as a Lua number and as an integer of a structured field (RFC 9651, 15
/// digits).
inline constexpr std::int64_t kLargestCount = 1'000'000'000'000;

/// What a count may come to by what is owed.
inline constexpr std::int64_t kMostOwed = 1'000'000'000'000'000;

/// The longest time that a directive may have: 366 d.
inline constexpr std::int64_t kLongestTimeMs = 366LL * 24 * 3600 * 1000;

/// The latest time that is taken for one, and the longest wait that is reported: 15 digits.
inline constexpr std::int64_t kLatestTimeMs = 999'999'999'999'999;
inline constexpr std::int64_t kLongestWaitMs = kLatestTimeMs;

/// Entries of a log, and with `algorithm=compact` the ms from its oldest entry to its newest. No limit is as large, so
/// a log looks emptier to none if older entries leave.
inline constexpr std::int64_t kMostOfLog = (1LL << 40) - 1;

}  // namespace sliding_log
