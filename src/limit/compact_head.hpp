// What stands in front of the numbers of a log of algorithm=compact, as lua/compact_log.lua packs it, and how a number
// tells that it is a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "limit/bounds.hpp"

namespace sliding_log {

inline constexpr char kCompactFormat = 1;
inline constexpr std::size_t kCompactStateBytes = 37;
inline constexpr std::size_t kCompactFront = 64;  // bytes of next and latest together
inline constexpr std::size_t kCompactHead = kCompactStateBytes + kCompactFront;

inline constexpr char kCompactBlockedFormat = 2;
inline constexpr std::size_t kCompactBlockedBytes = 29;

// of logs with runs
inline constexpr char kCompactRunsFormat = 3;
inline constexpr char kCompactBlockedRunsFormat = 4;
inline constexpr char kCompactRun = static_cast<char>(0x80);  // the first byte of a run
inline constexpr std::uint64_t kMostCompact = kMostOfLog;     // entries, and ms from the oldest to the newest

/// A log that is not blocked: its format, and the bytes that CompactState reads.
inline bool hasCompactState(std::string_view bytes) {
    return (bytes.starts_with(kCompactFormat) || bytes.starts_with(kCompactRunsFormat)) &&
           bytes.size() >= kCompactStateBytes;
}

/// A log that is blocked.
inline bool hasCompactBlock(std::string_view bytes) {
    return (bytes.starts_with(kCompactBlockedFormat) || bytes.starts_with(kCompactBlockedRunsFormat)) &&
           bytes.size() >= kCompactBlockedBytes;
}

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
    bool hasRuns = false;
    Number oldest = 0;
    Number newest = 0;
    Number used = 0;
    Number touched = 0;
    Number size = 0;  // of the ring
    Number begin = 0;
    Number filled = 0;
    std::size_t nextBytes = 0;
    std::size_t latestBytes = 0;

    /// Of bytes that hasCompactState().
    static CompactState read(std::string_view bytes) {
        Unpacker<Number> in(bytes.substr(1));
        CompactState state;
        state.hasRuns = bytes.front() == kCompactRunsFormat;
        state.oldest = in.number(6);
        state.newest = state.hasRuns ? state.oldest + in.number(5) : in.number(6);
        state.used = in.number(state.hasRuns ? 5 : 4);
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
    bool hasRuns = false;
    Number until = 0;
    Number length = 0;
    Number oldest = 0;
    Number newest = 0;
    Number used = 0;

    /// Of bytes that hasCompactBlock().
    static CompactBlock read(std::string_view bytes) {
        Unpacker<Number> in(bytes.substr(1));
        CompactBlock block;
        block.hasRuns = bytes.front() == kCompactBlockedRunsFormat;
        block.until = in.number(6);
        block.length = in.number(6);
        block.oldest = in.number(6);
        block.newest = block.hasRuns ? block.oldest + in.number(5) : in.number(6);
        block.used = in.number(block.hasRuns ? 5 : 4);
        return block;
    }
};

}  // namespace sliding_log
