// Numbers for products: a limit of 10^12 times a window of 366 days does not fit in 64 bits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sliding_log {

__extension__ using Int128 = __int128;

/// The longest wait that is told: 15 digits, as a structured field's integer has (RFC 9651).
inline constexpr std::int64_t kLongestWaitMs = 999'999'999'999'999;

/// Quotients towards minus and plus infinity; the divisor is positive.
constexpr Int128 divideDown(Int128 number, Int128 divisor) {
    return number / divisor - (number % divisor < 0 ? 1 : 0);
}
constexpr Int128 divideUp(Int128 number, Int128 divisor) {
    // by 1 mostly, and 128 bits are divided by a function
    return divisor == 1 ? number : number / divisor + (number % divisor > 0 ? 1 : 0);
}

/// How long it takes until `missing` has come at `rate` a millisecond; kLongestWaitMs where that is never.
constexpr std::int64_t waitFor(Int128 missing, std::int64_t rate) {
    if (missing <= 0) {
        return 0;
    }
    return rate == 0 ? kLongestWaitMs
                     : static_cast<std::int64_t>(std::min<Int128>(divideUp(missing, rate), kLongestWaitMs));
}

}  // namespace sliding_log
