// Whether a level's `return` responds to all requests, before the access phase and so before any limit.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// True if the first thing that the rewrite module does at the level being merged is a `return`. A `return` after `set`
/// or inside `if` is not reported: it may depend on the request. False if the rewrite module is absent, or not as
/// expected.
bool returnsFirst(ngx_conf_t* cf);

}  // namespace sliding_log
