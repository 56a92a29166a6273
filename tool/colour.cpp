#include "colour.hpp"

#include <unistd.h>

#include <cstdlib>

namespace sliding_log::tool {

namespace {

/// A variable of the environment; empty if it is not set.
std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool isWanted() {
    static const bool wanted = isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() &&
                               !variable("TERM").empty() && variable("TERM") != "dumb";
    return wanted;
}

std::string_view sequenceOf(Colour colour) {
    switch (colour) {
        case Colour::Title:
            return "\033[1m";
        case Colour::Good:
            return "\033[32m";
        case Colour::Warning:
            return "\033[33m";
        case Colour::Bad:
            return "\033[1;31m";
        case Colour::None:
            break;
    }
    return "";
}

}  // namespace

std::string coloured(std::string_view text, Colour colour) {
    if (colour == Colour::None || text.empty() || !isWanted()) {
        return std::string(text);
    }
    return std::string(sequenceOf(colour)).append(text).append("\033[0m");
}

}  // namespace sliding_log::tool
