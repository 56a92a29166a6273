// The command of the native module (native/module.cpp), and what its errors say.
#pragma once

#include <string_view>

namespace sliding_log {

/// Its number is that of the stored forms and the arguments: a module that gives them another meaning has another
/// command.
inline constexpr std::string_view kNativeCommand = "sliding_log.2";

/// The command is known, but the server accepts no writes now.
inline bool isRefusedForNow(std::string_view message) {
    return message.starts_with("READONLY ") || message.starts_with("MISCONF ") || message.starts_with("NOREPLICAS ");
}

/// The command is not permitted. Without this right the scripts are used.
inline bool isNativeForbidden(std::string_view message) {
    return message.starts_with("NOPERM ") && message.find(kNativeCommand) != std::string_view::npos;
}

/// The module was unloaded.
inline bool isNativeMissing(std::string_view message) {
    return message.starts_with("ERR unknown command");
}

/// The module is older: it lacks an algorithm or an option.
inline bool isNativeOlder(std::string_view message) {
    return message.ends_with(": no such algorithm") || message.ends_with(": unknown option");
}

/// Arguments that it does not know: of an older module, also a plain call with more, see isPlainWithMore().
inline bool isNativeUnable(std::string_view message) {
    constexpr std::string_view kError = "ERR ";
    return message.starts_with(kError) && message.substr(kError.size()).starts_with(kNativeCommand);
}

/// Of a short call: an older module has more words in each call.
inline bool isNativeArityWrong(std::string_view message) {
    return message.starts_with("ERR wrong number of arguments") &&
           message.find(kNativeCommand) != std::string_view::npos;
}

}  // namespace sliding_log
