// The parameters of sliding_log_limit NAME, one function each.
#pragma once

#include <string_view>

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

inline constexpr std::string_view kLimitDirective = "sliding_log_limit";

/// The directive as it is read, before it joins the log of its NAME.
struct LimitDraft {
    LimitSettings limit{};
    LogSettings log{};
    bool slackGiven = false;
};

/// Reads the words behind NAME into the draft, with the defaults that need no other directive.
char* readLimitParameters(ngx_conf_t* cf, LimitDraft& draft);

}  // namespace sliding_log
