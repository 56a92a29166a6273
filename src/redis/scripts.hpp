// The Lua scripts, inside the binary, and the names Redis knows them by.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sliding_log {

enum class Script : std::uint8_t { SlidingLog, SlidingLogUndo };

inline constexpr std::array kScripts = {Script::SlidingLog, Script::SlidingLogUndo};

/// The script's source, as its file in lua/ has it.
std::string_view scriptSource(Script script);

/// Its SHA-1 in hex: what EVALSHA is given. Computed once, at the first call.
std::string_view scriptSha(Script script);

}  // namespace sliding_log
