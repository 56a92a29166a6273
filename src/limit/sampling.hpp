// What algorithm=sampled logs of a request.
#pragma once

#include <cstdint>
#include <string_view>

namespace sliding_log {

/// The number of entries, each of which counts for `sample` requests, for a request of this cost: cost / sample on
/// average. It is a function of the unique name of the request, so that it can be taken back. The name has random bits
/// and is hashed with SHA-1, so that a client cannot predict it.
std::int64_t sampledEntries(std::int64_t cost, std::int64_t sample, std::string_view unique);

}  // namespace sliding_log
