// The result of a limit, or of all limits together, for a request.
#pragma once

#include <cstddef>
#include <string_view>

namespace sliding_log {

enum class Result { Passed, Rejected, Delayed, RejectedDryRun, DelayedDryRun };

/// As in metrics, by Result.
inline constexpr std::string_view kResultNames[] = {"passed", "rejected", "delayed", "rejected_dry_run",
                                                    "delayed_dry_run"};

/// As in variables.
constexpr std::string_view statusOf(Result result) {
    constexpr std::string_view kStatuses[] = {"PASSED", "REJECTED", "DELAYED", "REJECTED_DRY_RUN", "DELAYED_DRY_RUN"};
    return kStatuses[static_cast<std::size_t>(result)];
}

constexpr bool isRejection(Result result) {
    return result == Result::Rejected || result == Result::RejectedDryRun;
}

}  // namespace sliding_log
