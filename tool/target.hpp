// Which log is meant, and what belongs to it.
#pragma once

#include <string>
#include <string_view>

#include "command.hpp"

namespace sliding_log::tool {

/// From the command's words: a full key, or a limit's NAME and the value of its key=, of which the key is made as the
/// module does. Throws UsageError.
std::string targetKey(const Context& context);

/// True for what can be a limit's NAME.
bool isName(std::string_view name);

/// Throws UsageError for what cannot be a limit's NAME.
void requireName(std::string_view name);

/// The text as a pattern that matches nothing else.
std::string escapeGlob(std::string_view text);

/// SCAN's pattern for the logs of that NAME, or where it is empty, of all.
std::string logPattern(std::string_view prefix, std::string_view name);

}  // namespace sliding_log::tool
