// nginx's configuration files, as nginx reads them: words, quotes, comments, blocks and includes.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sliding_log::tool {

/// A directive, without its quotes.
using Words = std::vector<std::string>;

/// Tells every directive of the file and of what it includes, in nginx's order, whatever block it stands in. Includes
/// are relative to the file's folder, as they are to that of nginx's main file. False when the file cannot be read.
/// Throws UsageError, with file and line, for what nginx could not read either.
bool readNginxConf(const std::string& path, const std::function<void(const Words&)>& each);

}  // namespace sliding_log::tool
