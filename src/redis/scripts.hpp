// The Lua scripts, inside the binary, and the names Redis knows them by.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "limit/algorithm.hpp"

namespace sliding_log {

enum class Script : std::uint8_t { SlidingLog, SlidingLogUndo, CompactLog };

inline constexpr std::array kScripts = {Script::SlidingLog, Script::SlidingLogUndo, Script::CompactLog};

/// The script that decides by that algorithm.
constexpr Script scriptOf(Algorithm algorithm) {
    return algorithm == Algorithm::Compact ? Script::CompactLog : Script::SlidingLog;
}

/// The script's source, as its file in lua/ has it.
std::string_view scriptSource(Script script);

/// Its SHA-1 in hex: what EVALSHA is given. Computed once, at the first call.
std::string_view scriptSha(Script script);

}  // namespace sliding_log
