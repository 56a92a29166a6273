// Numbers for products: a limit of 10^12 times a window of 366 days exceeds 64 bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/bounds.hpp"

namespace sliding_log {

__extension__ using Int128 = __int128;

/// Quotients rounded towards minus and plus infinity; the divisor must be positive.
constexpr Int128 divideDown(Int128 number, Int128 divisor) {
    return number / divisor - (number % divisor < 0 ? 1 : 0);
}
constexpr Int128 divideUp(Int128 number, Int128 divisor) {
    // usually by 1; a division of 128 bits calls a function
    return divisor == 1 ? number : number / divisor + (number % divisor > 0 ? 1 : 0);
}

/// The time in ms until `missing` has come at `rate` per millisecond, at most kLongestWaitMs, also if it never comes.
constexpr std::int64_t waitFor(Int128 missing, std::int64_t rate) {
    if (missing <= 0) {
        return 0;
    }
    return rate == 0 ? kLongestWaitMs
                     : static_cast<std::int64_t>(std::min<Int128>(divideUp(missing, rate), kLongestWaitMs));
}

}  // namespace sliding_log
