// An internal redirect or a post_action begins: what settle= needs of what it will replace is noted.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// To run in both rewrite phases, of which a named location has only the latter, before the rewrite module, whose
/// `return` would skip the access phase. Needed only where a limit has settle=.
ngx_int_t onRewrite(ngx_http_request_t* request) noexcept;

}  // namespace sliding_log
