// The response fields: RateLimit-Policy, RateLimit, X-RateLimit-*, Retry-After.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// Adds the header filter at the top of the chain: it runs for every final response, including proxied ones and error
/// pages.
void installFieldsFilter();

}  // namespace sliding_log
