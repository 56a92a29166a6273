// Commands in RESP: arrays of bulk strings, appended to a text, such as a std::string that is reused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "limit/number.hpp"

namespace sliding_log {

/// Starts a command of `count` arguments, including its name.
template <typename Text>
void beginCommand(Text& out, std::size_t count) {
    out.push_back('*');
    out.append(DecimalText(static_cast<std::int64_t>(count)).view());
    out.append("\r\n");
}

template <typename Text>
void appendArgument(Text& out, std::string_view argument) {
    char length[24] = {'$'};  // with the end of its line
    char* end = std::to_chars(length + 1, std::end(length) - 2, argument.size()).ptr;
    *end++ = '\r';
    *end++ = '\n';
    out.append(std::string_view(length, static_cast<std::size_t>(end - length)));
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
