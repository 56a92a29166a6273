// How a log is kept: sliding_log_limit's algorithm=.
#pragma once

#include <cstdint>

namespace sliding_log {

enum class Algorithm : std::uint8_t {
    Log,      // one ZSET member a request, with an id
    Compact,  // the same decisions from the times alone, in one to two bytes a request
    Counter,  // a count for each window, the previous one weighted by its overlap
    Bucket,   // a token bucket
    Sampled   // one ZSET member for N requests
};

}  // namespace sliding_log
