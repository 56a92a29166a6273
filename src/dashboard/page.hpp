// The dashboard's page: one document, the same for everybody. Its script fetches what changes.
#pragma once

#include <string_view>

namespace sliding_log {

std::string_view page();

/// Content-Security-Policy for it: its own script and style by their hashes, data from where it came from, nothing
/// else. Should ever a key become markup, it could run and load nothing.
std::string_view pagePolicy();

}  // namespace sliding_log
