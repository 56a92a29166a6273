#include "target.hpp"

#include <algorithm>
#include <iostream>

#include "limit/key.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// A VALUE of `-` is a line of standard input, which is in no list of processes and in no history of a shell.
std::string valueOf(const std::string& word) {
    if (word != "-") {
        return word;
    }
    std::string line;
    if (!std::getline(std::cin, line) || line.empty()) {
        throw UsageError("standard input is empty, expected a line with the value of the limit's key");
    }
    return line;
}

}  // namespace

std::string targetKey(const Context& context) {
    const std::vector<std::string>& words = context.arguments.words();
    if (words.size() == 1) {
        if (!words[0].starts_with(context.prefix)) {
            throw UsageError("\"" + printable(words[0]) + "\" does not begin with \"" + printable(context.prefix) +
                             "\"; expected a full key, or a limit's NAME and the value of its key");
        }
        return words[0];
    }
    if (words.size() != 2) {
        throw UsageError("expected a full key, or a limit's NAME and the value of its key");
    }
    requireName(words[0]);
    const Secrecy secrecy = context.secrets.of(words[0]);
    std::string key(logKeyCapacity(context.prefix, words[0]), '\0');
    key.resize(writeLogKey(key.data(), context.prefix, words[0], valueOf(words[1]), secrecy));
    return key;
}

bool isName(std::string_view name) {
    constexpr std::size_t longest = 64;
    return !name.empty() && name.size() <= longest && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
               c == '-';
    });
}

void requireName(std::string_view name) {
    if (!isName(name)) {
        throw UsageError("\"" + printable(name) +
                         "\" is not the NAME of a limit, expected at most 64 of [A-Za-z0-9_.-]");
    }
}

std::string escapeGlob(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (std::string_view("*?[]\\^").find(c) != std::string_view::npos) {
            escaped.push_back('\\');
        }
        escaped.push_back(c);
    }
    return escaped;
}

std::string logPattern(std::string_view prefix, std::string_view name) {
    return escapeGlob(prefix) + (name.empty() ? "*" : std::string(name)) + ":{*}";
}

}  // namespace sliding_log::tool
