// How the block of a log is stored in Redis, and the key of what is remembered of blocks: the same for the scripts
// (lua/prelude.lua, lua/sliding_log.lua), the native module and the tool.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sliding_log {

/// Fields of a HASH: the end of the block and its length (ms).
inline constexpr std::string_view kBlockedUntil = "blocked until";
inline constexpr std::string_view kBlockedFor = "blocked for";

/// Appended to the key of a log, this is the key that remembers its blocks.
inline constexpr std::string_view kBlocksSuffix = ":blocks";

/// The member of a ZSET whose score is the negated end of a block of that length: "blocked for 60000 ms".
inline std::string blockMember(std::string_view lengthMs) {
    return std::string(kBlockedFor).append(" ").append(lengthMs).append(" ms");
}

/// The digits of the length in such a member, behind which any number of ~ may stand; empty: it is another member.
inline std::string_view blockLengthIn(std::string_view member) {
    if (!member.starts_with(kBlockedFor) || !member.substr(kBlockedFor.size()).starts_with(' ')) {
        return {};
    }
    member.remove_prefix(kBlockedFor.size() + 1);
    const std::string_view digits = member.substr(0, member.find_first_not_of("0123456789"));
    member.remove_prefix(digits.size());
    const bool isWhole = member.starts_with(" ms") && member.find_first_not_of('~', 3) == std::string_view::npos;
    return isWhole ? digits : std::string_view();
}

}  // namespace sliding_log
