#include "inflight_log.hpp"

#include <string>
#include <vector>

namespace sliding_log::native {

namespace {

/// Gives members the present time, or enters them again; also if there is no memory.
constexpr Command kRenew{.name = "ZADD", .writes = true};

}  // namespace

bool InflightLog::takeBack(Log& log, std::size_t names, double, double, bool& isBlocked) {
    isBlocked = false;
    const std::string name(arguments().text(names));
    return log.cost > 0 && remove(log, {name}, name, log.cost);
}

void renew(Redis& redis, const Clock& clock, const Arguments& arguments) {
    const std::string now = clock.text();
    std::vector<std::string_view> entries;
    api::ReplyWithArray(redis.context(), static_cast<long>(arguments.renewals().size()));
    for (const AskedRenewal& asked : arguments.renewals()) {
        entries.clear();
        for (std::size_t i = 0; i < asked.count; i++) {
            entries.push_back(now);
            entries.push_back(arguments.text(asked.members + i));
        }
        const Reply added = redis.tried(kRenew, asked.key, entries);
        if (added.isError()) {
            api::ReplyWithError(redis.context(), added.errorText().c_str());
            continue;
        }
        redis.tried(kPexpire, asked.key, {textOf(asked.ttl)});
        api::ReplyWithLongLong(redis.context(), integerOf(added.integer()));
    }
}

}  // namespace sliding_log::native
