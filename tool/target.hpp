// The log that a command is about.
#pragma once

#include <string>
#include <string_view>

#include "command.hpp"

namespace sliding_log::tool {

/// The key by the command's words: a full key, or the NAME of a limit and a value of its key=, of which the key is made
/// as in the module. Throws UsageError.
std::string targetKey(const Context& context);

/// True for a text that can be the NAME of a limit.
bool isName(std::string_view name);

/// Throws UsageError for a text that cannot be the NAME of a limit.
void requireName(std::string_view name);

/// The text as a pattern that matches only this text.
std::string escapeGlob(std::string_view text);

/// SCAN's pattern for the logs of this NAME, or of all if it is empty.
std::string logPattern(std::string_view prefix, std::string_view name);

}  // namespace sliding_log::tool
