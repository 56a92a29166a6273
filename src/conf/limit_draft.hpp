// A directive sliding_log_limit that is being read.
#pragma once

#include <string_view>

#include "settings/settings.hpp"

namespace sliding_log {

inline constexpr std::string_view kLimitDirective = "sliding_log_limit";

/// A directive that is being read, before it is compared with the log of its NAME.
struct LimitDraft {
    LimitSettings limit{};
    LogSettings log{};
    bool slackGiven = false;
};

}  // namespace sliding_log
