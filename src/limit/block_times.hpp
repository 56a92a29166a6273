// The times of block=, if it has several: a block that follows another one soon lasts the next of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sliding_log {

struct BlockTimes {
    static constexpr std::size_t kMost = 10;

    std::array<std::int64_t, kMost> ms{};
    std::uint8_t count = 0;  // 0: block= has one time or none

    bool escalates() const { return count > 0; }

    /// The step that follows, counted from 1; the last one repeats.
    std::uint8_t after(std::uint8_t step) const {
        return static_cast<std::uint8_t>(std::min<int>(step, count - 1) + 1);
    }

    std::int64_t at(std::uint8_t step) const { return ms[step - 1U]; }
};

}  // namespace sliding_log
