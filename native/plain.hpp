// The shorter ways of plain calls, as lua/plain_log.lua and lua/plain_compact.lua: they decide, write and reply as the
// frame does, and leave to it whatever is unusual, before they have added anything.
#pragma once

#include "arguments.hpp"
#include "redis.hpp"

namespace sliding_log::native {

/// False: the call is left to the frame.
bool replyToPlainLog(Redis& redis, const Clock& clock, const Arguments& arguments);
bool replyToPlainCompact(Redis& redis, const Clock& clock, const Arguments& arguments);

}  // namespace sliding_log::native
