#include <algorithm>

#include "limit/permit_life.hpp"
#include "plain.hpp"
#include "plain_reply.hpp"
#include "zset_log.hpp"

namespace sliding_log::native {

bool replyToPlainLog(Redis& redis, const Clock& clock, const Arguments& arguments) {
    const AskedLog& log = arguments.plainLog();
    const Settings& asked = log.settings;
    RedisModuleString* name = arguments.plainName();
    const double now = clock.now;
    const double horizon = now - asked.window;
    double oldest = 0;
    double newest = 0;

    Key key(redis, clock, log.key);
    if (asked.limit < 1 || (key.type() != api::Empty && key.type() != api::Zset)) {
        return false;
    }
    if (key.type() == api::Empty || !key.oldest(oldest)) {
        if (redis.isFull() || !key.add(now, name)) {
            return false;
        }
        key.expireIn(asked.ttl);
        return replyOfOne(redis, true, now, asked.limit - 1, asked.window, 0);
    }
    const auto count = static_cast<double>(key.count());
    double room = asked.limit - count;
    if (room < 0 || oldest < 0 || oldest > now || (oldest <= horizon && count > ZsetLog::kAtOnce)) {
        return false;  // a lower limit than before, a block, a step back of the clock, many that leave
    }
    if (oldest > horizon && room == 0) {
        if (!key.newest(newest) || newest > now) {
            return false;
        }
        const double reset = oldest + asked.window - now;
        return replyOfOne(redis, false, now, 0, reset, std::max(reset, 1.0));
    }
    double left = 0;
    if (room == 0) {
        // it never has more than `limit` entries, so that it stays in the encoding for short ones
        if (!key.newest(newest) || newest <= horizon || newest > now) {
            return false;
        }
        left = ZsetLog::removeUpTo(redis, key, log.key, horizon);
    }
    const bool hasMoved = key.expireLater(asked.ttl);
    if ((!hasMoved && (!key.newest(newest) || newest > now)) || redis.isFull() || !key.add(now, name)) {
        return false;
    }
    if (oldest <= horizon) {
        if (left == 0) {
            left = ZsetLog::removeUpTo(redis, key, log.key, horizon);
            if (left == count && !hasMoved) {
                key.expireIn(asked.ttl);
            }
        }
        room += left;
        key.oldest(oldest);
        if (oldest == now && left < count && key.newest(newest) &&
            newest > now + static_cast<double>(permitLifeMs(integerOf(asked.window)))) {
            key.expireIn(2 * asked.ttl);  // the next call sees the step back
        }
    }
    return replyOfOne(redis, true, now, room - 1, oldest + asked.window - now, 0);
}

}  // namespace sliding_log::native
