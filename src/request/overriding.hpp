// What a record (override=on) changes in a decision of a store.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Adapts the decision of this limit of the round, and its check, to the record that its verdict names: its source, its
/// limit. A record that is broken, or may not be read, is written to the error log, at most once a second.
void applyOverride(const ngx_http_request_t* request, Round& round, std::size_t limit);

}  // namespace sliding_log
