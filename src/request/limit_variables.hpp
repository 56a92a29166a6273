// $sliding_log_status_NAME and the like: the decision of one limit, dry or enforced, whichever limit decided the
// request.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// Registers the families of variables; NGX_ERROR if memory is short.
ngx_int_t addLimitVariables(ngx_conf_t* cf);

/// Called when the whole configuration is read, since limits may follow the use of their variables. NGX_ERROR, and an
/// error is logged: a variable is used that no NAME has, or several.
ngx_int_t checkLimitVariables(ngx_conf_t* cf, const MainSettings& main);

}  // namespace sliding_log
