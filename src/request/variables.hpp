// $sliding_log_*: what the access log, headers and other modules can tell of the decision.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// Registers the variables; NGX_ERROR when memory is short. From the module's preconfiguration.
ngx_int_t addVariables(ngx_conf_t* cf);

}  // namespace sliding_log
