// The numbers of a log of algorithm=compact: 7 bits a byte, highest first, the eighth bit set in all bytes but the
// last.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "compact_state.hpp"
#include "log.hpp"

namespace sliding_log::native {

inline unsigned byteAt(std::string_view bytes, std::size_t at) {
    if (at >= bytes.size()) {
        unreadable();
    }
    return static_cast<unsigned char>(bytes[at]);
}

/// The number that begins at `at`, which is moved behind it.
inline double numberAt(std::string_view bytes, std::size_t& at) {
    double high = 0;
    unsigned bits = byteAt(bytes, at++);
    while (bits >= 128) {
        high = (high + bits - 128) * 128;
        bits = byteAt(bytes, at++);
    }
    return high + bits;
}

/// The number that ends before `at`, which is moved to its first byte.
inline double numberBefore(std::string_view bytes, std::size_t& at) {
    if (at == 0) {
        unreadable();
    }
    double ms = byteAt(bytes, --at);
    double scale = 1;
    while (at > 0 && byteAt(bytes, at - 1) >= 128) {
        scale *= 128;
        ms += (byteAt(bytes, --at) - 128) * scale;
    }
    return ms;
}

/// Appends the bytes of a number.
inline void appendNumber(std::string& out, double ms) {
    if (!(ms >= 0 && ms < kMostExact)) {
        unreadable();
    }
    char bytes[8];
    std::size_t at = sizeof bytes;
    bytes[--at] = static_cast<char>(std::fmod(ms, 128));
    while (ms >= 128) {
        ms = std::floor(ms / 128);
        bytes[--at] = static_cast<char>(128 + static_cast<unsigned>(std::fmod(ms, 128)));
    }
    out.append(bytes + at, sizeof bytes - at);
}

inline double sizeOf(std::string_view bytes) {
    return static_cast<double>(bytes.size());
}

inline bool isEnd(char byte) {
    return static_cast<unsigned char>(byte) < 128;
}

/// What stands for so many more entries of the time of the entry before them is a run from this many on: two entries
/// are as short without.
inline constexpr double kShortestRun = 3;

}  // namespace sliding_log::native
