// The parameters of sliding_log_limit NAME: which there are, and which a limit needs and may have.
#pragma once

#include <string_view>

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

inline constexpr std::string_view kLimitDirective = "sliding_log_limit";

/// A directive that is being read, before it is compared with the log of its NAME.
struct LimitDraft {
    LimitSettings limit{};
    LogSettings log{};
    bool slackGiven = false;
};

/// Reads the words after NAME into the draft, and sets the defaults that depend on no other directive.
char* readLimitParameters(ngx_conf_t* cf, LimitDraft& draft);

}  // namespace sliding_log
