// The response fields: RateLimit-Policy, RateLimit, X-RateLimit-*, Retry-After.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// Puts the header filter on top of the chain: it runs for every final answer, proxied ones and error pages included.
void installFieldsFilter();

}  // namespace sliding_log
