#include "quota_log.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace sliding_log::native {

namespace {

constexpr const char* kNotQuota = "WRONGTYPE not a log of algorithm=quota";

/// The time of the first request in the name of a field; false: it is not a field of this algorithm.
bool firstIn(std::string_view field, double& time) {
    const std::size_t blank = std::min(field.find(' '), field.size());
    const std::string_view period = field.substr(0, blank);
    const std::string_view digits = field.substr(std::min(blank + 1, field.size()));
    const auto isOfName = [](unsigned char c) { return std::isalnum(c) != 0; };
    return !period.empty() && std::ranges::all_of(period, isOfName) && !digits.empty() &&
           digits.find_first_not_of("0123456789") == std::string_view::npos && numberIn(digits, time) &&
           time <= kLatestTime;
}

Period periodOf(const Log& log, double time) {
    return periodAt(integerOf(time), integerOf(log.window));
}

}  // namespace

double QuotaLog::latest(const Log& log) {
    const Reply fields = redis_.tried(kHgetall, log.key, {});
    double latest = 0;
    if (!fields.isError()) {
        forEachField(fields, [&](std::string_view name, std::string_view) {
            double first = 0;
            latest = std::max(latest, firstIn(name, first) ? first : 0);
        });
    }
    return latest;
}

Found QuotaLog::read(Log& log) {
    const Reply fields = redis_.tried(kHgetall, log.key, {});
    if (fields.isError()) {
        return {.error = kWrongType};
    }
    log.period = periodOf(log, clock_.now);
    const std::int64_t following = log.period.end;
    log.used = log.moved = 0;
    log.field.clear();
    log.leaving.clear();
    bool isOurs = true;
    forEachField(fields, [&](std::string_view name, std::string_view text) {
        double first = 0;
        double count = 0;
        isOurs = isOurs && firstIn(name, first) && numberIn(text, count) && count >= 0 && std::fmod(count, 1) == 0 &&
                 count <= kMostExact;
        if (!isOurs) {
            return;
        }
        const Period its = periodOf(log, first);
        if (its.begin == following && log.period.begin < following) {
            if (!log.field.empty()) {
                leaveBehind(log.leaving, log.field);
            }
            log.period = its;
            log.used = log.moved = 0;
            log.field.clear();
        }
        if (its == log.period && log.field.empty()) {
            log.used += count;
            log.field = name;
            return;
        }
        if (its.begin >= log.period.begin) {
            log.used += count;
            log.moved += count;
        }
        leaveBehind(log.leaving, name);
    });
    if (!isOurs || log.used > kMostExact) {
        return {.error = kNotQuota};
    }
    log.changed = log.moved > 0;
    log.hasFrees = true;
    log.frees = static_cast<double>(log.period.end);
    return {};
}

/// The time to live of the log (ms): until its period ends, plus the slack.
double QuotaLog::expiry(const Log& log) const {
    return log.frees - clock_.now + log.ttl - log.window;
}

std::string QuotaLog::add(Log& log, const Requests& requests, const double*, bool) {
    const double admitted = requests.count() * log.cost;
    const double more = admitted + log.moved;
    if (more <= 0) {
        return {};
    }
    if (log.field.empty()) {
        const std::string_view period = nameOfPeriod(integerOf(log.window));
        log.field = (period.empty() ? textOf(log.window) : std::string(period)) + ' ' + clock_.text();
    }
    const Reply count = redis_.tried(kHincrby, log.key, {log.field, textOf(more)});
    if (!count.isInteger()) {
        return count.errorText();
    }
    if (count.integer() == more) {
        redis_.call(kPexpire, log.key, {textOf(expiry(log))});
    } else if (!clock_.isOwn) {
        redis_.call(kPexpire, log.key, {textOf(expiry(log)), "GT"});
    }
    removeFields(redis_, log, log.leaving);
    log.used += admitted;
    log.moved = 0;
    log.changed = false;
    return {};
}

bool QuotaLog::takeBack(Log& log, std::size_t, double, double taken, bool& isBlocked) {
    isBlocked = false;
    bool isGone = false;
    double left = log.cost;
    const Reply fields = redis_.call(kHgetall, log.key, {});
    forEachField(fields, [&](std::string_view name, std::string_view text) {
        double first = 0;
        double count = 0;
        if (!firstIn(name, first) || !numberIn(text, count) || count < 0) {
            throw Error{kNotQuota};
        }
        if (left <= 0 || first > taken || periodOf(log, first) != periodOf(log, taken)) {
            return;
        }
        if (count <= left) {
            redis_.call(kHdel, log.key, {name});
        } else {
            redis_.call(kPexpire, log.key, {"1", "GT"});  // a call that has written is not refused memory
            redis_.call(kHincrby, log.key, {name, textOf(-left)});
        }
        left = std::max(left - count, 0.0);
        isGone = true;
    });
    return isGone;
}

bool QuotaLog::owe(Log& log, double more, double, double taken, std::optional<double> ended) {
    if (const Found found = read(log); found.error != nullptr) {
        throw Error{found.error};
    }
    more = std::min(more, static_cast<double>(kMostOwed) - log.used);
    // the log may be in the period after that of now
    const bool hasLeft = ended ? periodOf(log, *ended).begin < periodOf(log, clock_.now).begin
                               : periodOf(log, taken).end < log.period.end;
    if (!(more >= 1) || hasLeft) {
        return false;
    }
    const double cost = log.cost;
    log.cost = more;
    const std::string failed = add(log, {.names = 0, .from = 1, .to = 1}, nullptr, false);
    log.cost = cost;
    if (!failed.empty()) {
        throw Error{failed};
    }
    return true;
}

}  // namespace sliding_log::native
