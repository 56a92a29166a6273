// The text of the response fields, after draft-ietf-httpapi-ratelimit-headers (syntax of -10 and -11): a List of
// String Items (RFC 9651) with one member per limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

/// The maximum length of one member in bytes, including the comma before it.
constexpr std::size_t fieldMemberCapacity(std::string_view name) {
    return name.size() + 64;
}

/// A number of requests, and the time for it.
struct Quota {
    std::int64_t most;
    std::int64_t windowMs;  // 0: not a whole number of milliseconds
    bool isAtOnce = false;  // requests under way at once: there is no time for them

    static Quota atOnce(std::int64_t most) { return {.most = most, .windowMs = 0, .isAtOnce = true}; }
};

/// What a limit allows. For a bucket with burst=, it is the burst, since the remaining tokens are counted against it,
/// in the time that refills all of them. `burst` 0: not given.
Quota quotaOf(std::int64_t limit, std::int64_t burst, std::int64_t windowMs);

/// Appends `"api";q=1000;w=60` (after a `, ` unless `out` is the beginning of the field) and returns the new end. `w`
/// is in whole seconds; any other time is omitted. Of requests at once: `"api";q=50;qu="concurrent-requests"`.
char* appendPolicyMember(const char* begin, char* out, std::string_view name, const Quota& quota);

/// Appends a member that was written before, as the first one of a field.
char* appendMember(const char* begin, char* out, std::string_view member);

/// Appends `"api";r=994;t=12`; t is in seconds, rounded up, and omitted if it is kNoTime.
inline constexpr std::int64_t kNoTime = -1;
char* appendLimitMember(const char* begin, char* out, std::string_view name, std::int64_t remaining,
                        std::int64_t resetMs);

}  // namespace sliding_log
