// The log that a command is about.
#pragma once

#include <string>
#include <string_view>

#include "command.hpp"

namespace sliding_log::tool {

/// The key by the command's words: a full key, or the NAME of a limit and a value of its key=, of which the key is made
/// as in the module. It may still be one of a secret that is shortened, as it is shown. Asks nothing. Throws
/// UsageError, also for a key that no decision can have.
std::string targetKey(const Context& context);

/// The key itself; that of the only log in Redis that is shown like this, if it is shortened. Throws CouldNotAsk if
/// there is none or several.
std::string wholeKey(Store& store, const Context& context, std::string key);

/// True also if the user may not ask.
bool hasLog(Store& store, const std::string& key);

/// True for a text that can be the NAME of a limit.
bool isName(std::string_view name);

/// Throws UsageError for a text that cannot be the NAME of a limit.
void requireName(std::string_view name);

/// The text as a pattern that matches only this text.
std::string escapeGlob(std::string_view text);

/// SCAN's pattern for the logs of this NAME, or of all if it is empty.
std::string logPattern(std::string_view prefix, std::string_view name);

/// The same for the records beside these logs, and those of NAMEs; other keys may match, too.
std::string recordPattern(std::string_view prefix, std::string_view name);

}  // namespace sliding_log::tool
