// The data of the dashboard as JSON: docs/monitoring.md describes it.
#pragma once

#include <string>

#include "settings/settings.hpp"

namespace sliding_log {

/// Numbers of requests, calls and errors are totals since nginx was started: readers compute differences.
std::string dashboardData(const MainSettings& main);

}  // namespace sliding_log
