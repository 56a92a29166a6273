// nginx's configuration files, as nginx reads them: words, quotes, comments, blocks and includes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "place.hpp"

namespace sliding_log::tool {

/// The words of a directive, without quotes.
using Words = std::vector<std::string>;

struct Directive {
    Words words;
    Place place;
    const Directive* block = nullptr;  // the block that it is in, without the `block` of that one; nullptr: none
};

/// Calls `each` for all directives of the file and of its includes, in nginx's order and in any block. Includes are
/// relative to the directory of the file, as they are to that of nginx's main file. False if the file cannot be read.
/// Throws UsageError, with file and line, for what nginx could not read either.
bool readNginxConf(const std::string& path, const std::function<void(const Directive&)>& each);

/// The path that nginx opens for a path in its configuration: relative ones are relative to the main file.
std::string besideMain(const std::string& main, const std::string& path);

}  // namespace sliding_log::tool
