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

/// Returns the number that begins at `at`, and moves `at` behind it.
inline double numberAt(std::string_view bytes, std::size_t& at) {
    double high = 0;
    unsigned bits = byteAt(bytes, at++);
    while (bits >= 128) {
        high = (high + bits - 128) * 128;
        bits = byteAt(bytes, at++);
    }
    return high + bits;
}

/// Returns the number that ends before `at`, and moves `at` to its first byte.
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

/// The shortest run: for fewer entries, their numbers take no more bytes.
inline constexpr double kShortestRun = 3;

}  // namespace sliding_log::native
