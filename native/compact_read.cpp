// algorithm=compact: reads a log: the fields of its form, without entries that have left the window.
#include <algorithm>
#include <cmath>

#include "compact_inside.hpp"

namespace sliding_log::native {

double CompactLog::latest(const Log& log) {
    Key key(redis_, clock_, log.key);
    if (key.type() != api::String) {
        return 0;
    }
    const std::string_view bytes = key.bytes();
    if (hasCompactState(bytes)) {
        return CompactState<double>::read(bytes).newest - log.ahead;
    }
    if (hasCompactBlock(bytes)) {
        const auto block = CompactBlock<double>::read(bytes);
        return std::max(block.until - block.length, block.used > 0 ? block.newest - log.ahead : 0);
    }
    return 0;
}

/// Reads the fields of the form, and sets `has` if there is a newest entry.
Found CompactLog::readFront(Log& log) {
    Key key(redis_, clock_, log.key);
    if (key.type() != api::Empty && key.type() != api::String) {
        return {.error = kWrongType};
    }
    const std::string_view bytes = key.bytes();
    log.changed = log.has = log.hasRuns = false;
    log.unmarked = 0;
    log.base = kCompactHead;
    log.place.reset();
    log.length = static_cast<double>(bytes.size());
    if (bytes.empty()) {
        return {};
    }
    if (hasCompactBlock(bytes)) {
        return readBlocked(log, bytes);
    }
    if (!hasCompactState(bytes)) {
        return {.error = kNotCompact};
    }
    const CompactState<double> state = CompactState<double>::read(bytes);
    log.has = true;
    log.hasRuns = state.hasRuns;
    log.oldest = state.oldest;
    log.newest = state.newest;
    log.used = state.used;
    log.touched = state.touched;
    log.size = state.size;
    log.begin = state.begin;
    log.filled = state.filled;
    const std::string_view front = bytes.substr(0, kCompactHead);
    const std::size_t latestAt = kCompactStateBytes + state.nextBytes;
    const double numbers = state.used - 1;
    const double length = static_cast<double>(state.nextBytes + state.latestBytes) + state.filled;
    if (length < (log.hasRuns ? std::min(numbers, 1.0) : numbers) || length > numbers * kLongestNumber ||
        log.oldest > log.newest || log.filled > log.size || latestAt + state.latestBytes > front.size()) {
        return {.error = kNotCompact};
    }
    log.next = front.substr(kCompactStateBytes, state.nextBytes);
    log.latest = front.substr(latestAt, state.latestBytes);
    return {};
}

Found CompactLog::read(Log& log) {
    const Found found = readFront(log);
    if (found.error != nullptr) {
        return found;
    }
    const double now = clock_.now;
    const double horizon = now - log.window;
    if (!log.has || log.newest <= horizon) {
        log.changed = found.isBlocked && log.has && log.used > 0;  // without a block, stale contents stay
        log.oldest = log.newest = log.touched = now;
        log.used = 0;
        removeRing(log);
        log.latest.clear();
        log.hasFrees = log.hasRuns = false;
        return found;
    }
    if (log.oldest <= horizon && !dropStale(log, horizon)) {
        return {.error = kNotCompact};
    }
    if (log.newest > now && log.newest > farthest(log)) {
        stepBack(log, farthest(log));
        log.changed = true;
    }
    if (log.base != kCompactHead && !found.isBlocked) {
        flatten(log);  // the block is over
    }
    log.hasFrees = true;
    log.frees = log.oldest + log.window;
    return found;
}

/// Removes the entries that have left the window; false if the contents are not those of a log.
bool CompactLog::dropStale(Log& log, double horizon) {
    std::size_t place = 0;
    double oldest = log.oldest;
    double left = 0;
    std::size_t passed = 0;
    do {
        if (place >= log.next.size()) {
            if (passed >= kCompactFront) {
                log.oldest = oldest;
                log.used -= left;
                log.next.clear();
                drop(log, kEndless, horizon);
                place = 0;
                oldest = log.oldest;
                left = 0;
                break;
            }
            refill(log);
            place = 0;
        }
        const bool isRun = log.hasRuns && place < log.next.size() && log.next[place] == kCompactRun;
        const double number = numberAt(log.next, place);
        oldest += isRun ? 0 : number;
        left += isRun ? number : 1;
        passed++;
    } while (!(oldest > horizon));
    if (oldest > log.newest || left >= log.used) {
        return false;
    }
    log.oldest = oldest;
    log.used -= left;
    log.next.erase(0, place);
    log.changed = true;
    return true;
}

/// Removes the oldest entries: at most `most`, and none after `time`; never all of them.
void CompactLog::drop(Log& log, double most, double time) {
    const bool isNearNewest = most == kEndless && time - log.oldest > log.newest - time;
    const Place found = isNearNewest ? leftBefore(log, time) : walk(log, true, most, time).place();
    if (found.passed >= log.used || found.entry > log.newest || (found.entry <= time && found.passed < most)) {
        throw Error{kNotCompact};
    }
    log.place.reset();
    log.oldest = found.entry;
    log.used -= found.passed;
    const double ofNext = static_cast<double>(log.next.size());
    const double ofRest = found.bytes - ofNext;
    log.next.erase(0, static_cast<std::size_t>(std::min(found.bytes, ofNext)));
    if (ofRest > log.filled) {
        log.latest.erase(0, static_cast<std::size_t>(ofRest - log.filled));
        log.filled = 0;
    } else if (ofRest > 0) {
        log.begin = std::fmod(log.begin + ofRest, log.size);
        log.filled -= ofRest;
    }
    if (found.within > 0) {
        shortenRun(log, found.within);
    }
}

/// Removes so many entries of the run that is the first number.
void CompactLog::shortenRun(Log& log, double entries) {
    if (log.next.empty()) {
        refill(log);
    }
    std::size_t past = 0;
    const double run = numberAt(log.next, past);
    if (!(run > entries)) {
        throw Error{kNotCompact};
    }
    std::string rest;
    appendSame(rest, log, run - entries);
    log.next.replace(0, past, rest);
}

}  // namespace sliding_log::native
