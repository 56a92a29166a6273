// What algorithm=sampled logs of a request.
#pragma once

#include <cstdint>
#include <string_view>

namespace sliding_log {

/// How many entries, each of which counts for `sample` requests, stand for a request of that cost: cost / sample on
/// average. A function of the request's unique name, so that it can be taken back, and through SHA-1, so that nobody
/// outside can tell: the name holds random bits.
std::int64_t sampledEntries(std::int64_t cost, std::int64_t sample, std::string_view unique);

}  // namespace sliding_log
