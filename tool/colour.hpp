// Colours, if standard output is a terminal and NO_COLOR is not set.
#pragma once

#include <string>
#include <string_view>

namespace sliding_log::tool {

enum class Colour { None, Title, Good, Warning, Bad };

/// For standard output.
std::string coloured(std::string_view text, Colour colour);

}  // namespace sliding_log::tool
