// Commands in RESP: arrays of bulk strings, appended to a text, such as a std::string that is reused.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>

#include "limit/number.hpp"

namespace sliding_log {

/// Permits the next command for a slot that is still being imported.
inline constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";

/// Appends how much of that kind follows: a line, in one piece, since each call has many of them.
template <typename Text>
void appendLength(Text& out, char kind, std::size_t length) {
    char line[24] = {kind};
    char* end = std::to_chars(line + 1, std::end(line) - 2, length).ptr;
    *end++ = '\r';
    *end++ = '\n';
    out.append(std::string_view(line, static_cast<std::size_t>(end - line)));
}

/// Starts a command of `count` arguments, including its name.
template <typename Text>
void beginCommand(Text& out, std::size_t count) {
    appendLength(out, '*', count);
}

template <typename Text>
void appendArgument(Text& out, std::string_view argument) {
    appendLength(out, '$', argument.size());
    out.append(argument);
    out.append("\r\n");
}

inline void appendArgument(std::string& out, std::int64_t number) {
    appendArgument(out, DecimalText(number).view());
}

/// A whole command at once.
inline std::string command(std::initializer_list<std::string_view> arguments) {
    std::string out;
    beginCommand(out, arguments.size());
    for (std::string_view argument : arguments) {
        appendArgument(out, argument);
    }
    return out;
}

}  // namespace sliding_log
