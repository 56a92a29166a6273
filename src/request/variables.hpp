// $sliding_log_*: the decision, for the access log, headers and other modules.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// Registers the variables in the preconfiguration of the module; NGX_ERROR if memory is short.
ngx_int_t addVariables(ngx_conf_t* cf);

}  // namespace sliding_log
