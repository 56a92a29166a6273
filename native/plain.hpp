// The shorter ways of plain calls, as lua/plain_log.lua and lua/plain_compact.lua. They decide and write as the frame
// does. Logs in unusual cases are left to the frame before anything was added.
#pragma once

#include "arguments.hpp"
#include "redis.hpp"

namespace sliding_log::native {

/// The reply for one log.
struct PlainReply {
    bool admitted = false;
    double now = 0;
    double remaining = 0;
    double reset = 0;
    double retry = 0;
};

/// Decides the request for one log of a plain call. Returns false if it is left to the frame.
bool decidePlainLog(Redis& redis, const Clock& clock, const Settings& asked, RedisModuleString* keyName,
                    RedisModuleString* name, PlainReply& reply);
bool decidePlainCompact(Redis& redis, const Clock& clock, const Settings& asked, RedisModuleString* keyName,
                        double cost, PlainReply& reply);

}  // namespace sliding_log::native
