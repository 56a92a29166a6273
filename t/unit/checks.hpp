// The checks of tests.
#pragma once

#include <cstdint>
#include <string_view>

#include "limit/check.hpp"

namespace sliding_log {

constexpr std::int64_t kHourMs = 3'600'000;

inline Check check(Algorithm algorithm, std::int64_t limit, std::int64_t windowMs, std::string_view key = "key") {
    Check check;
    check.key = key;
    check.algorithm = algorithm;
    check.limit = check.burst = limit;
    check.windowMs = windowMs;
    check.sample = 10;
    return check;
}

inline Check with(Check check, std::int64_t Check::*member, std::int64_t value) {
    check.*member = value;
    return check;
}

}  // namespace sliding_log
