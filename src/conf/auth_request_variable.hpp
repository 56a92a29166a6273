// Variables of auth_request_set: they have their values only after the access handlers.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// The handler that auth_request_set gives to a variable that has none. nullptr if this nginx has no such directive, or
/// it does not do what is expected.
ngx_http_get_variable_pt authRequestHandler(const ngx_conf_t& cf);

}  // namespace sliding_log
