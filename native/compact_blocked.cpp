// algorithm=compact: the form of a blocked log: the block, and all numbers in one piece.
#include <algorithm>

#include "compact_inside.hpp"

namespace sliding_log::native {

/// Reads a log in its blocked form. Its numbers are taken for a ring that begins with the first of them.
Found CompactLog::readBlocked(Log& log, std::string_view bytes) {
    const auto block = CompactBlock<double>::read(bytes);
    log.hasRuns = block.hasRuns;
    log.oldest = block.oldest;
    log.newest = block.newest;
    log.used = block.used;
    log.has = true;
    const double numbers = std::max(log.used - 1, 0.0);
    const auto left = static_cast<double>(bytes.size() - kCompactBlockedBytes);
    if (left < (log.hasRuns ? std::min(numbers, 1.0) : numbers) || left > numbers * kLongestNumber ||
        (log.used > 0 && log.oldest > log.newest)) {
        return {.error = kNotCompact};
    }
    log.touched = log.begin = 0;
    log.base = kCompactBlockedBytes;
    log.size = log.filled = left;
    log.next.clear();
    log.latest.clear();
    if (log.used == 0) {
        log.newest = -kEndless;
    }
    skipDead(log);
    if (block.until > clock_.now) {
        log.isBlocked = true;
        log.blockedUntil = block.until;
        log.blockLength = block.length;
        return {.isBlocked = true};
    }
    log.changed = true;
    return {};
}

/// Skips the bytes at the beginning of a blocked log that stand for nothing: runs of no entries.
void CompactLog::skipDead(Log& log) {
    log.deadAt = 0;
    bool goesOn = log.hasRuns;
    double most = kCompactFront;
    while (goesOn && log.filled > 0) {
        const std::string bytes = ofRing(log, 0, std::min(most, log.filled));
        std::size_t at = 0;
        for (std::size_t last = bytes.find_first_not_of(kCompactRun);
             last != std::string::npos && last > at && bytes[last] == 0;
             last = bytes.find_first_not_of(kCompactRun, at)) {
            log.deadAt = log.begin + static_cast<double>(at);
            at = last + 1;
        }
        log.begin += static_cast<double>(at);
        log.filled -= static_cast<double>(at);
        goesOn = at > 0 && static_cast<double>(bytes.size() - at) <= kLongestNumber;
        most = 1024;
    }
    log.dead = log.begin;
}

void CompactLog::block(Log& log, double, double) {
    if (const std::string failed = add(log, {.names = 0, .from = 1, .to = 0}, nullptr, false); !failed.empty()) {
        throw Error{failed};
    }
}

void CompactLog::unblock(Log& log) {
    log.isBlocked = false;
    flatten(log);
    write(log);
}

namespace {

/// Appends so many bytes that stand for nothing: runs of no entries.
void appendNothing(std::string& out, double bytes) {
    const auto append = [&](double length) {
        out.append(static_cast<std::size_t>(length) - 1, kCompactRun).push_back('\0');
    };
    while (bytes >= kLongestNumber + 2 || bytes == kLongestNumber) {
        append(kLongestNumber);
        bytes -= kLongestNumber;
    }
    if (bytes > kLongestNumber) {
        append(kLongestNumber - 1);
        bytes = 2;
    }
    if (bytes > 0) {
        append(bytes);
    }
}

/// How many bytes at the beginning of a blocked log may stand for nothing. They grow when entries leave. With more of
/// them the log is written whole.
constexpr double kMostDead = 2048;

}  // namespace

std::string CompactLog::writeBlocked(Log& log) {
    double dead = log.begin - sizeOf(log.next);
    const double live = sizeOf(log.next) + log.filled + sizeOf(log.latest);
    const double end = log.begin + log.filled + sizeOf(log.latest);
    const bool fits = log.canHaveRuns();
    const bool inPlace = log.base == kCompactBlockedBytes && dead != 1 && dead >= log.dead &&
                         dead <= std::min(kMostDead, live / 8) && end >= log.size &&
                         end <= (log.used - 1) * kLongestNumber && (dead == 0 || fits);
    if (!inPlace) {
        flatten(log);
        dead = fits && live > 4 * kCompactFront ? 2 : 0;  // one such byte alone is not possible, and two can grow
    }
    log.hasRuns = log.hasRuns || dead > 0;
    std::string bytes(kCompactBlockedBytes, '\0');
    char* out = bytes.data();
    *out++ = log.hasRuns ? kCompactBlockedRunsFormat : kCompactBlockedFormat;
    pack(out, log.blockedUntil, 6);
    pack(out, log.blockLength.value(), 6);
    pack(out, log.oldest, 6);
    packNewestAndUsed(out, log.hasRuns, log.oldest, log.newest, log.used);
    std::string failed;
    if (inPlace) {
        failed = overwriteBlocked(log, bytes, dead);
    } else {
        appendNothing(bytes, dead);
        failed = set(log, bytes.append(log.latest), log.ttl);
        log.deadAt = 0;
    }
    if (!failed.empty()) {
        return failed;
    }
    log.base = kCompactBlockedBytes;
    log.size = dead + live;
    log.begin = log.dead = dead;
    log.filled = live;
    log.next.clear();
    log.latest.clear();
    return {};
}

std::string CompactLog::overwriteBlocked(Log& log, std::string_view head, double dead) {
    Key key(redis_, clock_, log.key);
    if (const char* error = key.overwrite(0, head); error != nullptr) {
        return error;
    }
    if (dead > log.dead || !log.next.empty()) {
        const double at = dead > log.dead ? log.deadAt : dead;
        std::string bytes;
        appendNothing(bytes, dead - at);
        key.overwrite(kCompactBlockedBytes + static_cast<std::size_t>(at), bytes.append(log.next));
    }
    if (!log.latest.empty()) {
        key.overwrite(kCompactBlockedBytes + static_cast<std::size_t>(log.begin + log.filled), log.latest);
    }
    key.expireIn(log.ttl);
    return {};
}

}  // namespace sliding_log::native
