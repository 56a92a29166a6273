// Whether a level's `return` answers everything, before the access phase and so before any limit.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// True when the first that the rewrite module does at the level being merged is a `return`. One behind `set` or
/// inside `if` is not told: it may depend on the request. False where the rewrite module is absent, or not as known.
bool returnsFirst(ngx_conf_t* cf);

}  // namespace sliding_log
