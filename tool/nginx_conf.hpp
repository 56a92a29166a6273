// nginx's configuration files, as nginx reads them: words, quotes, comments, blocks and includes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "place.hpp"

namespace sliding_log::tool {

/// Without quotes.
using Words = std::vector<std::string>;

struct Directive {
    Words words;
    Place place;
    const Directive* block = nullptr;  // that it stands in, of which `block` is not told; nullptr: in none
};

/// Tells every directive of the file and of what it includes, in nginx's order, whatever block it stands in. Includes
/// are relative to the file's folder, as they are to that of nginx's main file. False when the file cannot be read.
/// Throws UsageError, with file and line, for what nginx could not read either.
bool readNginxConf(const std::string& path, const std::function<void(const Directive&)>& each);

/// What nginx takes a path for that stands in its configuration: relative ones are beside the main file.
std::string besideMain(const std::string& main, const std::string& path);

}  // namespace sliding_log::tool
