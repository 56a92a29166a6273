// The Lua scripts, inside the binary, and the names Redis knows them by.
#pragma once

#include <string_view>

#include "limit/algorithm.hpp"

namespace sliding_log {

/// The source of the script that decides by that algorithm: its file in lua/, and the frame of all behind it.
std::string_view scriptSource(Algorithm algorithm);

/// Its SHA-1 in hex: what EVALSHA is given. Computed once, at the first call.
std::string_view scriptSha(Algorithm algorithm);

}  // namespace sliding_log
