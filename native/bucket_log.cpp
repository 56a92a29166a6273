#include "bucket_log.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace sliding_log::native {

namespace {

/// The largest debt; more is ignored.
constexpr double kMostUsed = 1e30;

constexpr const char* kNotBucket = "WRONGTYPE not a log of algorithm=bucket";

/// All digits of a whole number.
std::string wholeText(double number) {
    char digits[40];
    return {digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.0f", number))};
}

/// Since when a bucket with that field `time` is not full (ms); false if that is not known.
bool sinceIn(std::string_view time, double& since) {
    const std::size_t digits = std::min(time.find_first_not_of("0123456789"), time.size());
    const std::string_view rest = time.substr(digits);
    if (digits == 0) {
        return false;
    }
    if (rest == ".") {
        return numberIn(time.substr(0, digits), since);
    }
    constexpr std::string_view kMark = ".00000";
    const std::string_view behind = rest.starts_with(kMark) ? rest.substr(kMark.size()) : std::string_view();
    return !behind.empty() && behind.find_first_not_of("0123456789") == std::string_view::npos &&
           numberIn(behind, since);
}

}  // namespace

/// The time when the bucket has so many tokens (ms).
double BucketLog::filledAt(const Log& log, double tokens) const {
    return clock_.now + std::min(std::ceil((tokens * log.window - log.level) / log.limit), kLatestTime);
}

void BucketLog::tell(Log& log) const {
    const double tokens = std::floor(log.level / log.window);
    log.used = log.capacity() - tokens;
    log.hasFrees = tokens < log.capacity() && log.limit > 0;
    log.frees = log.hasFrees ? filledAt(log, tokens < 0 ? 1 : tokens + 1) : 0;
}

double BucketLog::roomAt(const Log& log, double missing) const {
    return filledAt(log, log.capacity() - log.used + missing);
}

bool BucketLog::takeBack(Log& log, std::size_t, double, double taken, bool& isBlocked) {
    bool hasUsed = false;
    double used = 0;
    bool hasSince = false;
    double since = 0;
    isBlocked = false;
    {
        const Reply fields = redis_.call(kHgetall, log.key, {});
        forEachField(fields, [&](std::string_view name, std::string_view text) {
            if (name == "used") {
                hasUsed = true;
                used = numberIn(text, used) ? used : -1;
            } else if (name == "time") {
                hasSince = sinceIn(text, since);
            }
            isBlocked = isBlocked || name == kBlockedUntil;
        });
    }
    if (!hasUsed || log.cost == 0 || (hasSince && taken < since)) {
        return false;
    }
    if (!(used >= 0 && used <= kMostUsed)) {
        throw Error{kNotBucket};
    }
    redis_.call(kPexpire, log.key, {textOf(log.ttl), "GT"});  // a call that has written is not refused memory
    redis_.call(kHset, log.key, {"used", wholeText(std::max(used - log.cost * log.window, 0.0))});
    return true;
}

/// Takes more tokens, so the bucket will be full later than stored. If it was full at the end of the request (without
/// `ended`: when the request was decided), these are the first tokens that are missing, from then on. If the log is
/// gone, the time at which the bucket was full is not known.
bool BucketLog::owe(Log& log, double more, double, double taken, std::optional<double> ended) {
    const double now = clock_.now;
    taken = ended.value_or(taken);
    bool hasUsed = false;
    double used = 0;
    double time = -1;
    std::string timeText;
    bool isNew = true;
    {
        const Reply fields = redis_.call(kHgetall, log.key, {});
        forEachField(fields, [&](std::string_view name, std::string_view text) {
            isNew = false;
            if (name == "used") {
                hasUsed = true;
                used = numberIn(text, used) ? used : -1;
            } else if (name == "time") {
                time = numberIn(text, time) ? time : -1;
                timeText = text;
            }
        });
    }
    if (hasUsed && !(used >= 0 && used <= kMostUsed && time >= 0 && time <= kLatestTime)) {
        throw Error{kNotBucket};
    }
    if (!hasUsed) {
        used = 0;
        time = ended.value_or(now);
        timeText = textOf(time) + ".";
    } else if ((taken - time) * log.limit > used) {
        used = 0;
        time = std::min(taken, now);
        timeText = textOf(time) + ".";
    }
    used = std::min(used + more * log.window, kMostUsed);
    if (ended && (now - time) * log.limit >= used) {
        return false;
    }
    redis_.call(kHset, log.key, {"used", wholeText(used), "time", timeText});
    const double toFill = log.limit > 0 ? used / log.limit - std::max(now - time, 0.0) : 0;
    const std::string ttl =
        toFill > log.window ? wholeText(std::min(toFill, kLatestTime) - log.window + log.ttl) : textOf(log.ttl);
    if (isNew) {
        redis_.call(kPexpire, log.key, {ttl});
    } else {
        redis_.call(kPexpire, log.key, {ttl, "GT"});
    }
    return true;
}

double BucketLog::latest(const Log& log) {
    const Reply fields = redis_.tried(kHgetall, log.key, {});
    if (fields.isError()) {
        return 0;
    }
    double time = 0;
    forEachField(fields, [&](std::string_view name, std::string_view text) {
        if (name == "time") {
            time = numberOrZero(text);
        }
    });
    return std::max(time, beginOfBlock(fields));
}

Found BucketLog::read(Log& log) {
    const Reply fields = redis_.tried(kHgetall, log.key, {});
    if (fields.isError()) {
        return {.error = kWrongType};
    }
    const double now = clock_.now;
    double used = 0;
    double time = now;
    bool isOurs = true;
    log.time.clear();
    forEachField(fields, [&](std::string_view name, std::string_view text) {
        double value = 0;
        if (!isOurs || !numberIn(text, value)) {
            isOurs = false;
        } else if (name == "used") {
            used = value;
        } else if (name == "time") {
            time = value;
            log.time = text;
        } else {
            isOurs = readBlock(log, name, value);
        }
    });
    if (!isOurs || !(used >= 0 && used <= kMostUsed && time <= kLatestTime)) {
        return {.error = kNotBucket};
    }
    log.wasBlocked = log.isBlocked && log.blockedUntil <= now;
    if (log.wasBlocked) {
        log.isBlocked = false;
    }
    log.changed = time > now;  // the clock has stepped back: the bucket is refilled from now on
    if (time < now) {
        used -= (now - time) * log.limit;
    }
    log.level = log.capacity() * log.window - (used > 0 ? used : 0);
    tell(log);
    return {.isBlocked = log.isBlocked};
}

std::string BucketLog::add(Log& log, const Requests& requests, const double*, bool denied) {
    const double window = log.window;
    const double level = log.level;
    log.level = level - requests.count() * log.cost * window;
    if (denied && log.cap > 0) {
        log.level = std::min(level, std::max(log.level, (log.capacity() - log.cap) * window));
    }
    if (log.level == level && !log.changed) {
        return {};
    }
    const double full = log.capacity() * window;
    double used = full - log.level;
    if (used > kMostUsed) {
        used = kMostUsed;
        log.level = full - kMostUsed;
    }
    const std::string now = clock_.text();
    std::string since;
    if (level >= full) {
        since = ".";
    } else {
        since = log.time.substr(std::min(now.size(), log.time.size()));
        double begin = 0;
        if (since == "." || log.changed) {
            // the text behind the stored time; the clock may have stepped back to before the time that it has
            since = sinceIn(log.time, begin) ? ".00000" + textOf(std::min(begin, clock_.now)) : "";
        }
    }
    log.time = now + since;
    const std::string usedText = used < kMostExact ? textOf(used) : wholeText(used);
    if (const Reply set = redis_.tried(kHset, log.key, {"used", usedText, "time", log.time}); set.isError()) {
        return set.errorText();
    }
    log.changed = false;
    if (log.wasBlocked && !log.isBlocked) {
        unblock(log);
    }
    const double toFill = log.limit > 0 ? used / log.limit : 0;
    redis_.call(kPexpire, log.key,
                {toFill > window ? wholeText(std::min(toFill, kLatestTime) - window + log.ttl) : textOf(log.ttl)});
    tell(log);
    return {};
}

}  // namespace sliding_log::native
