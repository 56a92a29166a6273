// The Lua scripts inside the binary, and their names in Redis.
#pragma once

#include <string_view>

#include "limit/algorithm.hpp"

namespace sliding_log {

/// The source of the script of this algorithm: its file in lua/, followed by decide.lua.
std::string_view scriptSource(Algorithm algorithm);

/// Its SHA-1 in hex, for EVALSHA. Computed once, at the first call.
std::string_view scriptSha(Algorithm algorithm);

}  // namespace sliding_log
