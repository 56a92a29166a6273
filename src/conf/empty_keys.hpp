// Keys that are always empty: their limits are off, silently.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// Warns of keys with a variable of an upstream's answer, of auth_request_set, or of a body that nginx has not read: it
/// is empty in the access phase. Not in locations that only internal redirects reach, where it may have a value from
/// before. To be called when the level is merged.
void warnOfEmptyKeys(ngx_conf_t* cf, const ngx_array_t& limits);

}  // namespace sliding_log
