// The version of the module, the tool, the packages and the metrics. CHANGELOG.md and debian/changelog name the same
// one, which t/project_version.t checks.
#pragma once

#include <string_view>

namespace sliding_log {

inline constexpr std::string_view kVersion = "0.11.0";

}  // namespace sliding_log
