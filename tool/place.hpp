// A position in a file, for messages.
#pragma once

#include <string>

#include "text.hpp"

namespace sliding_log::tool {

struct Place {
    std::string file;
    int line = 0;

    std::string text() const { return printable(file) + ":" + std::to_string(line); }
};

}  // namespace sliding_log::tool
