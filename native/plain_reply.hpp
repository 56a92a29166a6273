// The reply to a plain call.
#pragma once

#include "redis.hpp"

namespace sliding_log::native {

/// Admitted, or denied with a time until there is room.
inline bool replyOfOne(const Redis& redis, bool admitted, double now, double remaining, double reset, double retry) {
    RedisModuleCtx* context = redis.context();
    api::ReplyWithArray(context, 1);
    api::ReplyWithArray(context, 5);
    api::ReplyWithLongLong(context, admitted ? 1 : 0);
    for (double number : {now, remaining, reset, retry}) {
        api::ReplyWithLongLong(context, integerOf(number));
    }
    return true;
}

}  // namespace sliding_log::native
