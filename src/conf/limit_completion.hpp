// What concerns several parameters of a limit: defaults, and combinations that are refused.
#pragma once

#include "conf/limit_draft.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// To be called when all parameters are read.
char* completeParameters(ngx_conf_t* cf, LimitDraft& draft);

}  // namespace sliding_log
