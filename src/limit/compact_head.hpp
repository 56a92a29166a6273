// What stands in front of the numbers of a log of algorithm=compact, as lua/compact_log.lua packs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

inline constexpr char kCompactFormat = 1;
inline constexpr std::size_t kCompactStateBytes = 37;
inline constexpr std::size_t kCompactFront = 64;  // bytes of next and latest together
inline constexpr std::size_t kCompactHead = kCompactStateBytes + kCompactFront;

inline constexpr char kCompactBlockedFormat = 2;
inline constexpr std::size_t kCompactBlockedBytes = 29;

/// Reads numbers of so many bytes, highest first. There must be that many.
template <typename Number>
class Unpacker {
  public:
    explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

    Number number(std::size_t size) {
        std::uint64_t number = 0;
        for (const char byte : bytes_.substr(0, size)) {
            number = number << 8 | static_cast<unsigned char>(byte);
        }
        bytes_.remove_prefix(size);
        return static_cast<Number>(number);
    }

  private:
    std::string_view bytes_;
};

/// Of a log that is not blocked. Number: what its reader computes with.
template <typename Number>
struct CompactState {
    Number oldest = 0;
    Number newest = 0;
    Number used = 0;
    Number touched = 0;
    Number size = 0;  // of the ring
    Number begin = 0;
    Number filled = 0;
    std::size_t nextBytes = 0;
    std::size_t latestBytes = 0;

    /// `bytes` begin with the format, and are kCompactStateBytes at least.
    static CompactState read(std::string_view bytes) {
        Unpacker<Number> in(bytes.substr(1));
        CompactState state;
        state.oldest = in.number(6);
        state.newest = in.number(6);
        state.used = in.number(4);
        state.touched = in.number(6);
        state.size = in.number(4);
        state.begin = in.number(4);
        state.filled = in.number(4);
        state.nextBytes = static_cast<std::size_t>(in.number(1));
        state.latestBytes = static_cast<std::size_t>(in.number(1));
        return state;
    }
};

/// Of a log that is blocked: it has all its numbers in one piece, and no ring.
template <typename Number>
struct CompactBlock {
    Number until = 0;
    Number length = 0;
    Number oldest = 0;
    Number newest = 0;
    Number used = 0;

    /// `bytes` begin with the format, and are kCompactBlockedBytes at least.
    static CompactBlock read(std::string_view bytes) {
        Unpacker<Number> in(bytes.substr(1));
        CompactBlock block;
        block.until = in.number(6);
        block.length = in.number(6);
        block.oldest = in.number(6);
        block.newest = in.number(6);
        block.used = in.number(4);
        return block;
    }
};

}  // namespace sliding_log
