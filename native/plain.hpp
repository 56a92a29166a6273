// The shorter ways of plain calls, as lua/plain_log.lua and lua/plain_compact.lua: they decide and write as the frame
// does, and leave to it whatever is unusual, before they have added anything.
#pragma once

#include "arguments.hpp"
#include "redis.hpp"

namespace sliding_log::native {

/// What one log replies.
struct PlainReply {
    bool admitted = false;
    double now = 0;
    double remaining = 0;
    double reset = 0;
    double retry = 0;
};

/// One log of a plain call, and its request. False: it is left to the frame.
bool decidePlainLog(Redis& redis, const Clock& clock, const Settings& asked, RedisModuleString* keyName,
                    RedisModuleString* name, PlainReply& reply);
bool decidePlainCompact(Redis& redis, const Clock& clock, const Settings& asked, RedisModuleString* keyName,
                        double cost, PlainReply& reply);

}  // namespace sliding_log::native
