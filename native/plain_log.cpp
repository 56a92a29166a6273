#include <algorithm>

#include "limit/permit_life.hpp"
#include "plain.hpp"
#include "zset_log.hpp"

namespace sliding_log::native {

bool decidePlainLog(Redis& redis, const Clock& clock, const Settings& asked, RedisModuleString* keyName,
                    RedisModuleString* name, PlainReply& reply) {
    const double now = clock.now;
    const double horizon = now - asked.window;
    double oldest = 0;
    double newest = 0;

    Key key(redis, clock, keyName);
    if (asked.limit < 1 || (key.type() != api::Empty && key.type() != api::Zset)) {
        return false;
    }
    if (key.type() == api::Empty || !key.oldest(oldest)) {
        if (redis.isFull(keyName) || !key.add(now, name)) {
            return false;
        }
        key.expireIn(asked.ttl);
        reply = {true, now, asked.limit - 1, asked.window, 0};
        return true;
    }
    const auto count = static_cast<double>(key.count());
    double room = asked.limit - count;
    if (room < 0 || oldest < 0 || oldest > now || (oldest <= horizon && count > ZsetLog::kAtOnce)) {
        return false;  // a lower limit than before, a block, a clock that stepped back, or many entries that leave
    }
    if (oldest > horizon && room == 0) {
        if (!key.newest(newest) || newest > now) {
            return false;
        }
        const double reset = oldest + asked.window - now;
        reply = {false, now, 0, reset, std::max(reset, 1.0)};
        return true;
    }
    double left = 0;
    if (room == 0) {
        // so the log never has more than `limit` entries, and a short one keeps its compact encoding
        if (!key.newest(newest) || newest <= horizon || newest > now) {
            return false;
        }
        left = ZsetLog::removeUpTo(redis, key, keyName, horizon);
    }
    const bool hasMoved = key.expireLater(asked.ttl);
    if ((!hasMoved && (!key.newest(newest) || newest > now)) || redis.isFull(keyName) || !key.add(now, name)) {
        return false;
    }
    if (oldest <= horizon) {
        if (left == 0) {
            left = ZsetLog::removeUpTo(redis, key, keyName, horizon);
            if (left == count && !hasMoved) {
                key.expireIn(asked.ttl);
            }
        }
        room += left;
        key.oldest(oldest);
        if (oldest == now && left < count && key.newest(newest) &&
            newest > now + static_cast<double>(permitLifeMs(integerOf(asked.window)))) {
            key.expireIn(2 * asked.ttl);  // so the next call detects the step back
        }
    }
    reply = {true, now, room - 1, oldest + asked.window - now, 0};
    return true;
}

}  // namespace sliding_log::native
