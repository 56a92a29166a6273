// The block of a log in Redis, and what is remembered of the last one; lua/decide.lua and the files of the algorithms
// describe how they are stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store.hpp"

namespace sliding_log::tool {

struct Block {
    std::int64_t untilMs;
    std::int64_t lengthMs;
};

/// The command whose reply has the block of a log of this type, as in the reply to TYPE; nullopt: no log has this type.
std::optional<Command> blockQuery(std::string_view type, const std::string& key);

/// nullopt: the log has no block. It may be over.
std::optional<Block> blockIn(std::string_view type, ReplyView reply);

/// Of a log whose block= has several times.
struct RememberedBlock {
    Block block;
    std::int64_t step;  // the number of its time in the list, from 1

    /// A block that begins until then has the next step.
    std::int64_t endsMs() const { return block.untilMs + block.lengthMs; }
};

/// The key that remembers the last block of a log.
std::string memoryKey(const std::string& key);

/// The command whose reply has it.
Command memoryQuery(const std::string& key);
std::optional<RememberedBlock> rememberedIn(ReplyView reply);

}  // namespace sliding_log::tool
