#include "counter_log.hpp"

#include <algorithm>
#include <cmath>

namespace sliding_log::native {

namespace {

constexpr const char* kNotCounter = "WRONGTYPE not a log of algorithm=counter";

/// As Lua's % for a positive divisor: the result is never negative.
double modulo(double number, double divisor) {
    return number - std::floor(number / divisor) * divisor;
}

}  // namespace

/// The time when at most `most` (0 or more) of the limit is used (ms).
double CounterLog::fallsTo(const Log& log, double most) const {
    double start = log.start;
    double before = log.before;
    double here = log.here;
    double current = here;  // the count of the window at `start` only
    auto later = log.later.begin();
    for (const auto& [begin, count] : log.later) {
        current -= count;
    }
    for (std::size_t rest = 2 * log.later.size() + 8; rest > 0; rest--) {
        if (here <= most) {
            const double part = before > 0 ? std::floor((most - here) * log.window / before) : log.window;
            if (part > 0) {
                return std::max(start + std::max(log.window - part, 0.0), clock_.now);
            }
        }
        const bool hasLater = later != log.later.end();
        if (current == 0 && here > most && hasLater) {
            start = later->first - log.window;  // windows without a count are skipped
        }
        start += log.window;
        before = current;
        here = hasLater ? here - current : 0;
        current = 0;
        if (hasLater && later->first == start) {
            current = later->second;
            ++later;
        }
    }
    unreadable();
}

void CounterLog::tell(Log& log) const {
    const double part = log.before > 0 ? std::ceil(log.before * (log.window - clock_.now + log.start) / log.window) : 0;
    log.used = log.here + part;
    log.hasFrees = log.used > 0;
    log.frees = log.hasFrees ? fallsTo(log, std::max(std::min(log.used, log.limit) - 1, 0.0)) : 0;
}

double CounterLog::roomAt(const Log& log, double missing) const {
    return fallsTo(log, std::max(log.used - missing, 0.0));
}

/// Reads a field that is not a count; false if a log has no such field.
bool CounterLog::readField(Log& log, std::string_view name, double value, std::string_view text) {
    if (name != "reserved" || !(value >= 0)) {
        return readBlock(log, name, value);
    }
    log.hasReserved = true;
    log.reserved = std::floor(value);
    log.reservedSince = sinceBehind(text);
    return true;
}

/// Reads the count of a later window. If the clock has stepped back, it becomes a count of this window.
void CounterLog::countLater(Log& log, std::string_view field, double begin, double count, double farthest) {
    log.here += count;
    if (begin <= farthest) {
        log.later[begin - modulo(begin, log.window)] += count;  // a node with another window may have written it
    } else {
        if (log.field.empty()) {
            log.field = textOf(log.start);
        }
        redis_.call(kHincrby, log.key, {log.field, textOf(count)});
        redis_.call(kHdel, log.key, {field});
    }
}

/// Removes the fields in `leaving`, except for a block that lasts.
void CounterLog::remove(Log& log) {
    if (log.isBlocked) {
        std::erase_if(log.leaving, [](const std::string& field) { return field.starts_with("blocked "); });
    }
    removeFields(redis_, log, log.leaving);
}

/// Stores the latest reservation, and when the first one was made.
void CounterLog::reserve(Log& log, double at) {
    std::string since = log.hasReserved ? log.reservedSince : std::string();
    double first = 0;
    if (!log.hasReserved || (!since.empty() && numberIn(since, first) && first > clock_.now)) {
        since = clock_.text();
    }
    log.reserved = std::max(at, log.hasReserved ? log.reserved : 0);
    log.hasReserved = true;
    log.reservedSince = since;
    redis_.call(kHset, log.key, {"reserved", textOf(log.reserved) + (since.empty() ? "" : ".00000" + since)});
}

double CounterLog::latest(const Log& log) {
    const Reply fields = redis_.tried(kHgetall, log.key, {});
    if (fields.isError()) {
        return 0;
    }
    double start = 0;
    double reserved = 0;
    forEachField(fields, [&](std::string_view name, std::string_view text) {
        double begin = 0;
        if (numberIn(name, begin)) {
            start = std::max(start, begin);
        } else if (name == "reserved") {
            reserved = numberOrZero(text);
        }
    });
    const double latest = std::max(reserved < start ? start : start - log.ahead, reserved - log.ahead);
    return std::max(latest, beginOfBlock(fields));
}

Found CounterLog::read(Log& log) {
    const Reply fields = redis_.tried(kHgetall, log.key, {});
    if (fields.isError()) {
        return {.error = kWrongType};
    }
    const double now = clock_.now;
    const double farthest = now + log.ahead;
    log.start = now - modulo(now, log.window);
    log.before = log.here = 0;
    log.later.clear();
    log.field.clear();
    log.leaving.clear();
    log.hasReserved = false;
    double since = 0;
    std::vector<std::string> stale;
    bool isOurs = true;
    forEachField(fields, [&](std::string_view name, std::string_view text) {
        double begin = 0;
        double value = 0;
        const bool hasValue = numberIn(text, value);
        if (!isOurs) {
            return;
        }
        if (!numberIn(name, begin)) {
            isOurs = hasValue && readField(log, name, value, text);
            if (isOurs && log.hasReserved && log.reserved > farthest) {
                log.hasReserved = false;
                leaveBehind(stale, "reserved");
            }
        } else if (!(hasValue && value >= 0 && std::fmod(value, 1) == 0 && begin >= 0 && begin < kMostExact)) {
            isOurs = false;
        } else if (begin >= log.start + log.window) {
            countLater(log, name, begin, value, farthest);
        } else if (begin >= log.start) {
            log.here += value;
            if (begin >= since && begin <= now) {
                since = begin;
                log.field = name;
            }
        } else if (begin >= log.start - log.window) {
            log.before += value;
        } else {
            leaveBehind(stale, name);
        }
    });
    if (!isOurs || log.here + log.before > kMostExact) {
        return {.error = kNotCounter};
    }
    if (log.isBlocked && log.blockedUntil <= now) {
        log.isBlocked = false;
        leaveBehind(stale, kBlockedUntil);
        leaveBehind(stale, kBlockedFor);
    }
    if (!stale.empty()) {
        log.leaving = std::move(stale);
        if (2 * log.leaving.size() < fields.size()) {
            remove(log);
        }
    }
    tell(log);
    return {.isBlocked = log.isBlocked};
}

std::string CounterLog::add(Log& log, const Requests& requests, const double* at, bool denied) {
    double more = requests.count() * log.cost;
    if (denied && log.cap > 0) {
        more = std::max(std::min(more, log.cap - log.here), 0.0);
    }
    if (more <= 0) {
        return {};
    }
    const double start = at != nullptr ? *at - modulo(*at, log.window) : log.start;
    const std::string field = start > log.start ? textOf(start) : log.field.empty() ? clock_.text() : log.field;
    const Reply count = redis_.tried(kHincrby, log.key, {field, textOf(more)});
    if (!count.isInteger()) {
        return count.errorText();
    }
    if (count.integer() == more) {
        redis_.call(kPexpire, log.key, {textOf(log.ttl + log.window)});
    } else if (!clock_.isOwn) {
        redis_.call(kPexpire, log.key, {textOf(log.ttl), "GT"});
    }
    remove(log);
    if (start > log.start) {
        log.later[start] += more;
    } else {
        log.field = field;
    }
    double since = 0;
    const bool hasSince = log.hasReserved && !log.reservedSince.empty() && numberIn(log.reservedSince, since);
    if (at != nullptr && (*at > (log.hasReserved ? log.reserved : 0) || (hasSince && since > clock_.now))) {
        reserve(log, *at);
    }
    log.here += more;
    tell(log);
    return {};
}

bool CounterLog::takeBack(Log& log, std::size_t, double logged, double taken, bool& isBlocked) {
    struct Count {
        std::string name;
        double begin;
        double count;
    };
    const double start = logged - modulo(logged, log.window);
    std::vector<Count> counts;
    bool hasSince = false;
    double since = 0;
    isBlocked = false;
    {
        const Reply fields = redis_.call(kHgetall, log.key, {});
        forEachField(fields, [&](std::string_view name, std::string_view text) {
            double begin = 0;
            double value = 0;
            if (numberIn(name, begin) && begin >= start && begin < start + log.window &&
                (begin <= taken || begin == start)) {
                if (!numberIn(text, value) || !(value >= 0)) {
                    throw Error{kNotCounter};
                }
                counts.push_back({std::string(name), begin, value});
            }
            isBlocked = isBlocked || name == kBlockedUntil;
            if (!hasSince && name == "reserved") {
                hasSince = numberIn(sinceBehind(text), since);
            }
        });
    }
    if (hasSince && taken < start && taken < since) {
        return false;
    }
    std::ranges::sort(counts, std::greater(), &Count::begin);  // the latest first
    double left = log.cost;
    for (const Count& each : counts) {
        if (log.cost == 0) {
            break;
        }
        if (each.count <= left) {
            redis_.call(kHdel, log.key, {each.name});
        } else if (left > 0) {
            redis_.call(kPexpire, log.key, {textOf(log.ttl), "GT"});  // a call that has written is not refused memory
            redis_.call(kHincrby, log.key, {each.name, textOf(-left)});
        }
        left = std::max(left - each.count, 0.0);
    }
    isBlocked = isBlocked && start + 2 * log.window > clock_.now;
    return left < log.cost;
}

/// Adds to the latest count, unless that is of a window before the end of the request; without `ended`, to the latest
/// count that may include the request.
bool CounterLog::owe(Log& log, double more, double logged, double, std::optional<double> ended) {
    const double window = log.window;
    const double at = ended.value_or(std::min(logged, clock_.now));
    const double start = at - modulo(at, window);
    if (start < clock_.now - modulo(clock_.now, window) - window) {
        return false;
    }
    const double end = ended ? kMostExact : start + window;
    double since = -1;
    std::string field;
    double counted = 0;
    bool isNew = true;
    {
        const Reply fields = redis_.call(kHgetall, log.key, {});
        forEachField(fields, [&](std::string_view name, std::string_view text) {
            double begin = 0;
            double count = 0;
            isNew = false;
            if (!numberIn(name, begin) || !(begin >= start && begin < end)) {  // a name may be "nan"
                return;
            }
            if (!numberIn(text, count)) {
                throw Error{kNotCounter};
            }
            counted += count;
            if ((ended || begin <= at) && begin > since) {
                since = begin;
                field = name;
            }
        });
    }
    more = std::min(more, static_cast<double>(kMostOwed) - counted);
    if (!(more >= 1)) {
        return false;
    }
    redis_.call(kHincrby, log.key, {field.empty() ? textOf(at) : field, textOf(more)});
    if (isNew) {
        redis_.call(kPexpire, log.key, {textOf(log.ttl + window)});
    } else if (field.empty() || (ended && !clock_.isOwn)) {
        redis_.call(kPexpire, log.key, {textOf(log.ttl + window), "GT"});
    }
    return true;
}

}  // namespace sliding_log::native
