// The parameters of sliding_log_limit, and their names: as the module reads them, and as the tool finds them in nginx's
// configuration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

enum class Parameter : std::uint8_t {
    Key,
    Limit,
    Window,
    Period,
    Lease,
    Cap,
    Slack,
    Algorithm,
    Id,
    Count,
    Cost,
    Refund,
    Delay,
    Block,
    Burst,
    Sample,
    Prefetch,
    Settle,
    Store,
    Excess,
    Secret,
    DryRun,
    Override
};

/// Indexed by Parameter.
inline constexpr std::array<std::string_view, static_cast<std::size_t>(Parameter::Override) + 1> kParameterNames = {
    "key",      "limit",  "window", "period", "lease",  "cap",     "slack",   "algorithm",
    "id",       "count",  "cost",   "refund", "delay",  "block",   "burst",   "sample",
    "prefetch", "settle", "store",  "excess", "secret", "dry_run", "override"};

constexpr std::string_view nameOf(Parameter parameter) {
    return kParameterNames[static_cast<std::size_t>(parameter)];
}

static_assert(nameOf(Parameter::Override) == "override" && nameOf(Parameter::Refund) == "refund");

}  // namespace sliding_log
