// The head of a log of algorithm=compact, as lua/compact_log.lua packs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "redis.hpp"

namespace sliding_log::native {

inline constexpr char kCompactFormat = 1;
inline constexpr std::size_t kStateBytes = 37;
inline constexpr char kBlockedFormat = 2;
inline constexpr std::size_t kBlockedBytes = 29;
inline constexpr std::size_t kFront = 64;  // bytes of next and latest together
inline constexpr std::size_t kHead = kStateBytes + kFront;
inline constexpr double kLongestNumber = 7;  // bytes

inline constexpr const char* kNotCompact = "WRONGTYPE not a log of algorithm=compact";

/// Reads numbers of so many bytes, highest first.
class Unpacker {
  public:
    explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

    double number(std::size_t size) {
        std::uint64_t number = 0;
        for (; size > 0; size--) {
            number = number << 8 | static_cast<unsigned char>(bytes_.front());
            bytes_.remove_prefix(1);
        }
        return static_cast<double>(number);
    }

  private:
    std::string_view bytes_;
};

inline void pack(char*& out, double number, std::size_t size) {
    const auto bits = static_cast<std::uint64_t>(integerOf(number));
    while (size > 0) {
        size--;
        *out++ = static_cast<char>(bits >> (8 * size));
    }
}

/// What stands in front of the numbers.
struct CompactState {
    double oldest = 0;
    double newest = 0;
    double used = 0;
    double touched = 0;
    double size = 0;  // of the ring
    double begin = 0;
    double filled = 0;
    std::size_t nextBytes = 0;
    std::size_t latestBytes = 0;

    /// `front` begins with the format, and has kStateBytes at least.
    static CompactState read(std::string_view front) {
        Unpacker unpacker(front.substr(1));
        CompactState state;
        state.oldest = unpacker.number(6);
        state.newest = unpacker.number(6);
        state.used = unpacker.number(4);
        state.touched = unpacker.number(6);
        state.size = unpacker.number(4);
        state.begin = unpacker.number(4);
        state.filled = unpacker.number(4);
        state.nextBytes = static_cast<std::size_t>(unpacker.number(1));
        state.latestBytes = static_cast<std::size_t>(unpacker.number(1));
        return state;
    }

    /// Writes kStateBytes.
    void write(char* out) const {
        *out++ = kCompactFormat;
        pack(out, oldest, 6);
        pack(out, newest, 6);
        pack(out, used, 4);
        pack(out, touched, 6);
        pack(out, size, 4);
        pack(out, begin, 4);
        pack(out, filled, 4);
        pack(out, static_cast<double>(nextBytes), 1);
        pack(out, static_cast<double>(latestBytes), 1);
    }
};

}  // namespace sliding_log::native
