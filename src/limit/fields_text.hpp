// The text of the response fields, after draft-ietf-httpapi-ratelimit-headers (syntax of -10 and -11): a List of
// String Items (RFC 9651) with one member per limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

/// The most bytes one member takes, its leading comma included.
constexpr std::size_t fieldMemberCapacity(std::string_view name) {
    return name.size() + 64;
}

/// How many in which time.
struct Quota {
    std::int64_t most;
    std::int64_t windowMs;  // 0: not a time in whole milliseconds
};

/// What a limit allows. Of a bucket whose burst is given it is the burst, since its remaining tokens are counted
/// against that, in the time in which they all come back. Burst 0: not given.
Quota quotaOf(std::int64_t limit, std::int64_t burst, std::int64_t windowMs);

/// Appends `"api";q=1000;w=60` (after a `, ` unless out is the field's begin) and returns the new end. The draft's
/// w is whole seconds, so a time that is none is left out.
char* appendPolicyMember(const char* begin, char* out, std::string_view name, const Quota& quota);

/// Appends a member that was made before, as the first of its own field.
char* appendMember(const char* begin, char* out, std::string_view member);

/// Appends `"api";r=994;t=12`, t in seconds, rounded up.
char* appendLimitMember(const char* begin, char* out, std::string_view name, std::int64_t remaining,
                        std::int64_t resetMs);

}  // namespace sliding_log
