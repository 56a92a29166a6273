// The block of a log in the memory of the node, and what is remembered of the last one where block= has several times.
// The head of lua/decide.lua tells the same of logs in Redis.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/block_times.hpp"
#include "limit/check.hpp"

namespace sliding_log {

class Blocks {
  public:
    /// Until when the log denies every request; 0 or in the past: it is not blocked.
    std::uint64_t until() const { return latest_.until; }

    /// When the block began, if there is one.
    std::uint64_t since() const { return latest_.until - latest_.length; }

    /// A block begins now, and there is none.
    void begin(const Check& check, std::uint64_t now) {
        before_ = remembered(now);
        std::uint8_t step = 0;
        std::int64_t ms = check.blockMs;
        if (check.blockTimes.escalates()) {
            step = check.blockTimes.after(static_cast<std::uint8_t>(before_.step));
            ms = check.blockTimes.at(step);
        }
        const auto length = static_cast<std::uint64_t>(ms);
        latest_ = {.until = now + length, .length = length, .step = step};
    }

    /// The block ends early. What was remembered before it is remembered again.
    void undo(std::uint64_t now) {
        latest_ = before_.isRememberedAt(now) ? before_ : Block();
        before_ = Block();
    }

    /// Until when they are of use.
    std::uint64_t endsAt() const { return std::max({until(), latest_.rememberedUntil(), before_.rememberedUntil()}); }

  private:
    /// 12 bytes, so that most names fit behind a log.
    struct [[gnu::packed, gnu::aligned(4)]] Block {
        std::uint64_t until : 48 = 0;
        std::uint64_t length : 36 = 0;
        std::uint64_t step : 4 = 0;  // the number of its time in the list, from 1; 0: it is not remembered

        std::uint64_t rememberedUntil() const {
            return step > 0 ? until + length : 0;
        }
        bool isRememberedAt(std::uint64_t now) const {
            return step > 0 && now <= until + length;
        }
    };
    static_assert(sizeof(Block) == 12 && BlockTimes::kMost < 16);

    /// The last block with a step, if it is remembered.
    Block remembered(std::uint64_t now) const {
        const Block& last = latest_.step > 0 ? latest_ : before_;
        return last.isRememberedAt(now) ? last : Block();
    }

    Block latest_;
    Block before_;  // what was remembered when it began
};

}  // namespace sliding_log
