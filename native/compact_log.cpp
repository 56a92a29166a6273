// algorithm=compact: how a log is written.
#include <algorithm>
#include <cmath>

#include "compact_inside.hpp"
#include "limit/permit_life.hpp"

namespace sliding_log::native {

namespace {

constexpr Command kDel{.name = "DEL", .writes = true};

}  // namespace

/// Appends the numbers that stand for so many more entries with the time of the entry before them.
void appendSame(std::string& out, const CompactLog::Log& log, double entries) {
    if (entries < kShortestRun || !log.hasRuns) {
        out.append(static_cast<std::size_t>(entries), '\0');
        return;
    }
    if (!(entries <= kMostEntriesOfLog)) {
        throw Error{kNotCompact};
    }
    out.push_back(kCompactRun);
    appendNumber(out, entries);
}

void removeRing(CompactLog::Log& log) {
    log.base = kCompactHead;
    log.left.reset();
    log.next.clear();
    log.begin = log.filled = log.size = 0;
}

/// Moves all numbers into `latest`.
void CompactLog::flatten(Log& log) {
    log.latest = log.next + ofRing(log, 0, log.filled) + log.latest;
    removeRing(log);
}

/// Moves numbers from the end of the ring into `latest`, until it has so many bytes or all numbers.
void CompactLog::pull(Log& log, double bytes) {
    const double length = bytes - sizeOf(log.latest) + kLongestNumber;
    if (length >= log.filled) {
        flatten(log);
        return;
    }
    std::string tail = ofRing(log, log.filled - length, length);
    const auto end = std::ranges::find_if(tail, isEnd);
    if (end == tail.end()) {
        throw Error{kNotCompact};  // no number is that long
    }
    tail.erase(tail.begin(), end + 1);
    log.filled -= sizeOf(tail);
    Marks::unmark(log, std::fmod(log.begin + log.filled, log.size), sizeOf(tail));
    log.latest.insert(0, tail);
}

/// Fills `next`, which is empty, from the ring.
void CompactLog::refill(Log& log) {
    if (log.filled == 0) {
        log.next = log.latest;
        log.latest.clear();
        return;
    }
    std::string bytes = ofRing(log, 0, std::min<double>(log.filled, kCompactFront / 2));
    std::size_t length = bytes.size();
    while (length > 0 && !isEnd(bytes[length - 1])) {
        length--;
    }
    if (length == 0) {
        unreadable();
    }
    bytes.resize(length);
    log.next = bytes;
    log.begin = std::fmod(log.begin + static_cast<double>(length), log.size);
    log.filled -= static_cast<double>(length);
}

std::string CompactLog::set(const Log& log, std::string_view bytes, double ttl) {
    Key key(redis_, clock_, log.key);
    const char* error = key.set(bytes, ttl);
    return error == nullptr ? "" : error;
}

namespace {

std::string stateOf(const CompactLog::Log& log) {
    const CompactState<double> state{.hasRuns = log.hasRuns,
                                     .oldest = log.oldest,
                                     .newest = log.newest,
                                     .used = log.used,
                                     .touched = log.touched,
                                     .size = log.size,
                                     .begin = log.begin,
                                     .filled = log.filled,
                                     .nextBytes = log.next.size(),
                                     .latestBytes = log.latest.size()};
    std::string bytes(kCompactStateBytes, '\0');
    bytes.reserve(kCompactHead);
    writeState(state, bytes.data());
    return bytes.append(log.next).append(log.latest);
}

}  // namespace

/// Moves `latest` into the ring, since the front is full. If the ring is too small or far too large, writes the whole
/// log with a new one. Returns an error if there is no memory, or empty.
std::string CompactLog::spill(Log& log, bool& isWritten) {
    if (log.size == 0 || log.size - log.filled < sizeOf(log.latest) ||
        (log.filled + sizeOf(log.latest)) * 4 < log.size) {
        flatten(log);
        if (log.latest.size() <= kCompactFront) {
            return {};
        }
        const std::string bytes = log.latest;
        // an allocation size, less the overhead of a string
        double step = 32;
        const double needed = kCompactHead + sizeOf(bytes) + 48 + std::floor(sizeOf(bytes) / 64);
        while (needed > step * 8) {
            step *= 2;
        }
        log.size = std::ceil(needed / step) * step - kCompactHead - 16;
        log.filled = sizeOf(bytes);
        log.latest.clear();
        log.touched = clock_.now;
        std::string whole = stateOf(log).append(kCompactFront, '\0').append(bytes);
        whole.append(static_cast<std::size_t>(log.size) - bytes.size(), '\0');
        isWritten = true;
        return set(log, whole, log.ttl);
    }
    ofRing(log, log.size - log.begin - 1, 1);  // an error if the string ends before its ring does
    const double at = std::fmod(log.begin + log.filled, log.size);
    const std::string_view bytes = log.latest;
    const std::size_t first = std::min(bytes.size(), static_cast<std::size_t>(log.size - at));
    Key key(redis_, clock_, log.key);
    const char* error = key.overwrite(kCompactHead + static_cast<std::size_t>(at), bytes.substr(0, first));
    if (error == nullptr && first < bytes.size()) {
        error = key.overwrite(kCompactHead, bytes.substr(first));
    }
    log.filled += sizeOf(log.latest);
    log.latest.clear();
    return error == nullptr ? "" : error;
}

/// The index of what stands for nothing in front of a number that leaves: it belongs to that number.
std::size_t beforeNothing(const CompactLog::Log& log, std::string_view bytes, std::size_t at) {
    while (log.hasRuns && at > 0) {
        std::size_t past = at;
        if (numberBefore(bytes, past) > 0 || bytes[past] != kCompactRun) {
            break;
        }
        at = past;
    }
    return at;
}

/// `more`: the number of bytes that `latest` has before the place, unless it has all numbers. `isCounted`: the number
/// of entries after it is needed.
CompactLog::Split CompactLog::split(Log& log, double time, double more, bool isCounted) {
    std::optional<Place> above;
    if (!isCounted && log.filled > 0) {
        above = marks_.near(log, time).above;
    }
    const Walk found = walk(log, false, kEndless, time, above ? &*above : nullptr);
    more += log.hasRuns ? kLongestNumber : 0;
    log.place.reset();
    if (found.entry < log.oldest || (found.entry > time && found.entry != log.oldest)) {
        throw Error{kNotCompact};
    }
    if (found.bytes + more > sizeOf(log.latest)) {
        pull(log, found.bytes + more);
    }
    if (found.entry > time) {
        return {.has = false};
    }
    const std::size_t at = log.latest.size() - static_cast<std::size_t>(found.bytes);
    if (found.bytes == 0) {
        return {.has = true, .entry = found.entry, .at = at, .rest = at};
    }
    std::size_t rest = at;
    const double behind = numberAt(log.latest, rest);
    return {.has = true,
            .entry = found.entry,
            .hasBehind = true,
            .behind = behind,
            .at = beforeNothing(log, log.latest, at),
            .rest = rest,
            .after = found.passed};
}

/// Inserts entries before newer ones.
void CompactLog::insert(Log& log, double time, double more) {
    const Split place = split(log, time, 0);
    std::string numbers;
    if (place.has) {
        numbers = log.latest.substr(0, place.at);
        appendNumber(numbers, time - place.entry);
        appendSame(numbers, log, more - 1);
        if (!place.hasBehind) {
            unreadable();
        }
        appendNumber(numbers, place.entry + place.behind - time);
        numbers.append(log.latest, place.rest);
    } else {
        appendSame(numbers, log, more - 1);
        appendNumber(numbers, log.oldest - time);
        numbers.append(log.latest);
        log.oldest = time;
    }
    log.latest = numbers;
}

/// The latest time that a reservation or a permit may have.
double CompactLog::farthest(const Log& log) const {
    return clock_.now + std::max(log.ahead, static_cast<double>(permitLifeMs(integerOf(log.window))));
}

bool CompactLog::permit(Log& log, std::string_view, double permits, double at) {
    const double cost = log.cost;
    log.cost = permits * cost;
    const std::string failed = add(log, {.names = 0, .from = 1, .to = 1}, &at, false);
    log.cost = cost;
    return failed.empty();
}

/// Entries further ahead of now than reservations and permits may be become entries of now.
void CompactLog::stepBack(Log& log, double farthest) {
    const double now = clock_.now;
    Split place{.has = false};
    if (log.oldest <= farthest) {
        place = split(log, farthest, 0, true);
    } else {
        if (!log.hasRuns) {
            ofRing(log, 0, log.filled);  // an error if it has fewer entries than it says
        }
        removeRing(log);
    }
    if (!place.has) {
        if (!log.hasRuns && log.used - 1 > log.length) {
            throw Error{kNotCompact};
        }
        log.oldest = log.newest = now;
        log.latest.clear();
        appendSame(log.latest, log, log.used - 1);
        return;
    }
    log.latest.resize(place.at);
    log.newest = place.entry;
    if (place.entry > now) {
        insert(log, now, place.after);
    } else {
        appendNumber(log.latest, now - place.entry);
        if (place.after < 1) {
            unreadable();
        }
        appendSame(log.latest, log, place.after - 1);
        log.newest = now;
    }
}

/// Writes a log, or deletes it if nothing is left. Nothing else touches the log in this call.
void CompactLog::write(Log& log) {
    if (log.used == 0 && !log.isBlocked) {
        redis_.call(kDel, log.key, {});
    } else {
        add(log, {.names = 0, .from = 1, .to = 0}, nullptr, false);
    }
}

bool CompactLog::owe(Log& log, double more, double logged, double, std::optional<double> ended) {
    const Found found = read(log);
    if (found.error != nullptr) {
        throw Error{found.error};
    }
    double at = ended.value_or(std::min(logged, clock_.now));
    if (at <= clock_.now - log.window) {
        return false;
    }
    if (ended && log.used > 0) {
        at = std::max(at, log.newest);  // behind all others, so the price does not depend on what came since
    }
    const double cost = log.cost;
    const double ttl = log.ttl;
    log.cost = more;
    if (found.isBlocked) {
        log.ttl = std::max(ttl, static_cast<double>(integerOf(log.blockedUntil - clock_.now)));
    }
    const std::string failed = add(log, {.names = 0, .from = 1, .to = 1}, &at, false);
    log.cost = cost;
    log.ttl = ttl;
    if (!failed.empty()) {
        throw Error{failed};
    }
    return true;
}

std::string CompactLog::add(Log& log, const Requests& requests, const double* at, bool denied) {
    double more = requests.count() * log.cost;
    const double longest =
        denied && log.cap > 0 ? std::min(std::max(log.cap, log.used), kMostEntriesOfLog) : kMostEntriesOfLog;
    more = std::min(more, longest);
    if (more > 0) {
        const double time = at != nullptr ? *at : clock_.now;
        log.hasRuns = log.hasRuns || log.cost > kShortestRun;
        if (log.used == 0) {
            log.oldest = log.newest = time;
            log.latest.clear();
            appendSame(log.latest, log, more - 1);
        } else if (time < log.newest) {
            insert(log, time, more);
        } else {
            appendNumber(log.latest, time - log.newest);
            appendSame(log.latest, log, more - 1);
            log.newest = time;
        }
        log.used += more;
        if (log.used > longest) {
            drop(log, log.used - longest, kEndless);
        }
        log.hasFrees = true;
        log.frees = log.oldest + log.window;
    } else if (log.used == 0 && !log.isBlocked) {
        return {};
    }

    if (log.isBlocked) {
        return writeBlocked(log);
    }
    if (log.unmarked > 0) {
        if (std::string failed = marks_.clear(log); !failed.empty()) {
            return failed;
        }
    }
    if (log.next.size() + log.latest.size() > kCompactFront) {
        bool isWritten = false;
        std::string failed = spill(log, isWritten);
        if (isWritten || !failed.empty()) {
            return failed;
        }
    }
    const double now = clock_.now;
    if (log.size == 0) {
        if (more == 0 && log.touched > 0 && log.touched <= now) {
            return set(log, stateOf(log), 0);
        }
        log.touched = now;
        return set(log, stateOf(log), log.ttl);
    }
    // a reservation lives as long as an entry made at its time
    const bool isDue =
        log.touched > now || (!clock_.isOwn && more > 0) || (now - log.touched) * 2 >= log.ttl - log.window - log.ahead;
    if (isDue) {
        log.touched = now;
    }
    Key key(redis_, clock_, log.key);
    if (const char* error = key.overwrite(0, stateOf(log)); error != nullptr) {
        return error;
    }
    if (isDue) {
        key.expireIn(log.ttl);
    }
    return {};
}

}  // namespace sliding_log::native
