// Colours, where a person sees them: on a terminal, unless NO_COLOR says no.
#pragma once

#include <string>
#include <string_view>

namespace sliding_log::tool {

enum class Colour { None, Title, Good, Warning, Bad };

/// For standard output.
std::string coloured(std::string_view text, Colour colour);

}  // namespace sliding_log::tool
