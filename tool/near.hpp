// Words that were mistyped. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sliding_log::tool {

/// `; did you mean "inspect"?` of the known word that is nearest to this one; empty if none is near.
std::string didYouMean(std::string_view word, std::span<const std::string_view> known);

}  // namespace sliding_log::tool
