// What the dashboard shows, as JSON: docs/monitoring.md describes it.
#pragma once

#include <string>

#include "settings/settings.hpp"

namespace sliding_log {

/// Numbers of requests, calls and errors are since nginx was started: a reader takes differences.
std::string dashboardData(const MainSettings& main);

}  // namespace sliding_log
