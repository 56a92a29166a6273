// The page of the dashboard: one constant document. Its script fetches the data.
#pragma once

#include <string_view>

namespace sliding_log {

std::string_view page();

/// Its Content-Security-Policy: only its own script and style, by their hashes, and data of the same origin. If a key
/// ever became markup, it could not run or load anything.
std::string_view pagePolicy();

}  // namespace sliding_log
