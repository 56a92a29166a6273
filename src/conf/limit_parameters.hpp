// The parameters of sliding_log_limit NAME: which there are, and which a limit needs and may have.
#pragma once

#include "conf/limit_draft.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// Reads the words after NAME into the draft, and sets the defaults that depend on no other directive.
char* readLimitParameters(ngx_conf_t* cf, LimitDraft& draft);

}  // namespace sliding_log
