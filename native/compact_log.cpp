#include "compact_log.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "limit/permit_life.hpp"

namespace sliding_log::native {

namespace {

constexpr Command kDel{.name = "DEL", .writes = true};

constexpr double kEndless = std::numeric_limits<double>::infinity();

unsigned byteAt(std::string_view bytes, std::size_t at) {
    if (at >= bytes.size()) {
        unreadable();
    }
    return static_cast<unsigned char>(bytes[at]);
}

/// The number that begins at `at`, which is moved behind it.
double numberAt(std::string_view bytes, std::size_t& at) {
    double high = 0;
    unsigned bits = byteAt(bytes, at++);
    while (bits >= 128) {
        high = (high + bits - 128) * 128;
        bits = byteAt(bytes, at++);
    }
    return high + bits;
}

/// The number that ends before `at`, which is moved to its first byte.
double numberBefore(std::string_view bytes, std::size_t& at) {
    if (at == 0) {
        unreadable();
    }
    double ms = byteAt(bytes, --at);
    double scale = 1;
    while (at > 0 && byteAt(bytes, at - 1) >= 128) {
        scale *= 128;
        ms += (byteAt(bytes, --at) - 128) * scale;
    }
    return ms;
}

/// Appends the bytes of a number.
void appendNumber(std::string& out, double ms) {
    if (!(ms >= 0 && ms < kMostExact)) {
        unreadable();
    }
    char bytes[8];
    std::size_t at = sizeof bytes;
    bytes[--at] = static_cast<char>(std::fmod(ms, 128));
    while (ms >= 128) {
        ms = std::floor(ms / 128);
        bytes[--at] = static_cast<char>(128 + static_cast<unsigned>(std::fmod(ms, 128)));
    }
    out.append(bytes + at, sizeof bytes - at);
}

double sizeOf(std::string_view bytes) {
    return static_cast<double>(bytes.size());
}

bool isEnd(char byte) {
    return static_cast<unsigned char>(byte) < 128;
}

constexpr double kRoomyNumber = kLongestNumber - 1;  // the version before may make it longer by a byte

constexpr double kShortestRun = 3;  // two entries are as short without

/// Appends what stands for so many more entries of the time of the entry before them.
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

/// Some bytes of numbers: true if each is a number, and then their sum.
constexpr std::size_t kBlock = 64;
bool isOfBytes(const char* bytes, double& sum) {
    unsigned char all = 0;
    unsigned total = 0;
    for (std::size_t i = 0; i < kBlock; i++) {
        const auto byte = static_cast<unsigned char>(bytes[i]);
        all |= byte;
        total += byte;
    }
    sum = total;
    return all < 128;
}

}  // namespace

struct CompactLog::Walk {
    bool forward;
    double most;
    double time;
    double entry;
    bool hasRuns;
    double passed = 0;
    double bytes = 0;
    double within = 0;    // so many are passed of a run where the walk ends
    double run = 0;       // of a walk back: its entries
    double runBytes = 0;  // and its bytes

    /// Passes numbers from the side that the walk comes from; false when it has come to its end.
    bool pass(std::string_view numbers) {
        std::size_t at = forward ? 0 : numbers.size();
        std::size_t alone = at;  // up to here numbers are passed one by one
        while (forward ? at < numbers.size() : at > 0) {
            if (passed >= most || forward == (entry > time)) {
                return false;
            }
            const bool isFar = forward ? at >= alone : at <= alone;
            if (isFar && passBlock(numbers, at)) {
                continue;
            }
            if (isFar) {
                alone = forward ? at + kBlock : at - std::min(at, kBlock - 1);
            }
            const std::size_t from = at;
            const double number = forward ? numberAt(numbers, at) : numberBefore(numbers, at);
            const auto size = static_cast<double>(forward ? at - from : from - at);
            if (hasRuns && numbers[std::min(from, at)] == kCompactRun) {
                if (number > most - passed) {
                    within = most - passed;
                    run = number;
                    runBytes = size;
                    passed = most;
                    return false;
                }
                passed += number;
            } else {
                entry += forward ? number : -number;
                passed++;
            }
            bytes += size;
        }
        return true;
    }

  private:
    bool passBlock(std::string_view numbers, std::size_t& at) {
        // back, the first byte may belong to a longer number
        const std::size_t count = forward ? kBlock : kBlock - 1;
        double sum = 0;
        if ((forward ? numbers.size() - at : at) < kBlock || passed + static_cast<double>(count) > most ||
            !isOfBytes(numbers.data() + (forward ? at : at - kBlock), sum)) {
            return false;
        }
        if (!forward) {
            sum -= byteAt(numbers, at - kBlock);
        }
        const double reached = forward ? entry + sum : entry - sum;
        if (forward == (reached > time)) {
            return false;
        }
        entry = reached;
        passed += static_cast<double>(count);
        bytes += static_cast<double>(count);
        at = forward ? at + count : at - count;
        return true;
    }
};

/// Where the entries end that are not after a time.
struct CompactLog::Split {
    bool has;          // false: all are after it, and all numbers are in `latest`
    double entry = 0;  // the latest of them
    bool hasBehind = false;
    double behind = 0;     // ms to its successor
    std::size_t at = 0;    // where its number ends in `latest`
    std::size_t rest = 0;  // where the numbers behind its successor's begin
    double after = 0;      // so many entries are after it
};

/// `length` bytes of what the ring holds, after the first `skipped`.
std::string CompactLog::ofRing(const Log& log, double skipped, double length) {
    if (length == 0) {
        return {};
    }
    const double at = std::fmod(log.begin + skipped, log.size);
    if (!(at >= 0 && length > 0)) {
        throw Error{kNotCompact};
    }
    Key key(redis_, clock_, log.key);
    if (key.type() != api::String) {
        throw Error{key.type() == api::Empty ? kNotCompact : kWrongType};
    }
    const std::string_view all = key.bytes();
    const auto part = [&](double from, double to) {
        const std::size_t begin = std::min(static_cast<std::size_t>(from), all.size());
        return all.substr(begin, std::min(static_cast<std::size_t>(to), all.size()) - begin);
    };
    std::string bytes(part(log.base + at, log.base + std::min(at + length, log.size)));
    if (at + length > log.size) {
        bytes.append(part(log.base, log.base + at + length - log.size));
    }
    if (static_cast<double>(bytes.size()) != length) {
        throw Error{kNotCompact};
    }
    return bytes;
}

/// From the oldest entry forward while it is not after `time`, or from the newest back while it is after it; over no
/// more than `most` entries. Where that ends: the entry, how many were passed, the bytes of their numbers, and how many
/// more were passed of a run where it ends. `from`: forward from where an earlier one has ended.
CompactLog::Walk CompactLog::walk(const Log& log, bool forward, double most, double time, const Place* from) {
    Walk walk{.forward = forward,
              .most = most,
              .time = time,
              .entry = from != nullptr ? from->entry
                       : forward       ? log.oldest
                                       : log.newest,
              .hasRuns = log.hasRuns};
    double skipped = 0;
    if (from != nullptr) {
        walk.passed = from->passed - from->within;
        walk.bytes = skipped = from->bytes;
    }
    const auto behind = [](std::string_view bytes, double passed) {
        return bytes.substr(static_cast<std::size_t>(std::min(std::max(passed, 0.0), sizeOf(bytes))));
    };
    const double ofNext = sizeOf(log.next);
    bool goesOn = walk.pass(forward ? behind(log.next, skipped) : log.latest);
    double done = std::min(std::max(skipped - ofNext, 0.0), log.filled);
    double size = kCompactFront;
    while (goesOn && done < log.filled) {
        // a number is an entry, or more
        const double length =
            std::min({size, log.filled - done, std::max<double>(walk.most - walk.passed, kCompactFront)});
        std::string bytes = ofRing(log, forward ? done : log.filled - done - length, length);
        // whole numbers; one that is longer than that is none
        if (forward) {
            const auto last = std::find_if(bytes.rbegin(), bytes.rend(), isEnd);
            bytes.erase(last.base(), bytes.end());
        } else if (done + length < log.filled) {
            const auto first = std::ranges::find_if(bytes, isEnd);
            bytes.erase(bytes.begin(), first == bytes.end() ? first : first + 1);
        }
        if (bytes.empty()) {
            throw Error{kNotCompact};
        }
        done += static_cast<double>(bytes.size());
        size = std::min(4 * size, 4096.0);
        goesOn = walk.pass(bytes);
    }
    if (goesOn) {
        walk.pass(forward ? behind(log.latest, skipped - ofNext - log.filled) : log.next);
    }
    return walk;
}

void CompactLog::removeRing(Log& log) {
    log.base = kCompactHead;
    log.next.clear();
    log.begin = log.filled = log.size = 0;
}

/// All numbers leave their places for `latest`.
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
    log.latest.insert(0, tail);
}

/// `next` has run out.
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

/// The front is full: `latest` goes into the ring. Where that is too small, or far too large, the log is written whole
/// with another one. An error where there is no memory.
std::string CompactLog::spill(Log& log, bool& isWritten) {
    if (log.size == 0 || log.size - log.filled < sizeOf(log.latest) ||
        (log.filled + sizeOf(log.latest)) * 4 < log.size) {
        flatten(log);
        if (log.latest.size() <= kCompactFront) {
            return {};
        }
        const std::string bytes = log.latest;
        // a size that the allocator has, less what a string needs besides
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
    ofRing(log, log.size - log.begin - 1, 1);  // an error where the string ends before its ring: it does not grow
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

/// `more`: the number of bytes that `latest` has before the place, unless it has all numbers.
CompactLog::Split CompactLog::split(Log& log, double time, double more) {
    const Walk found = walk(log, false, kEndless, time);
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
    if (found.passed == 0) {
        return {.has = true, .entry = found.entry, .at = at, .rest = at};
    }
    std::size_t rest = at;
    const double behind = numberAt(log.latest, rest);
    return {.has = true,
            .entry = found.entry,
            .hasBehind = true,
            .behind = behind,
            .at = at,
            .rest = rest,
            .after = found.passed};
}

/// Puts entries in front of newer ones.
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

/// Entries further ahead of now than a reservation or a permit become entries of now.
void CompactLog::stepBack(Log& log, double farthest) {
    const double now = clock_.now;
    Split place{.has = false};
    if (log.oldest <= farthest) {
        place = split(log, farthest, 0);
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

/// Takes out up to `most` entries of the time `logged`: of those that came in the same millisecond one is as good as
/// the other. Where the clock `hasStepped` back since, of the newest time that is not after it: the step has moved the
/// entries, and all that were as new, to before. False when there is none: they have left already.
bool CompactLog::takeOut(Log& log, double logged, bool hasStepped, double most) {
    const double pulled = log.hasRuns ? std::min<double>(most, kCompactFront) : most;
    const Split place = split(log, logged, pulled + kLongestNumber);
    if (log.used == 0 || !place.has || (place.entry != logged && !hasStepped)) {
        return false;
    }
    const std::string bytes = log.latest;
    // an entry as old as the one before it is a zero that ends no longer number, or in a run
    std::size_t at = place.at;
    double gone = 0;
    double ahead = 0;
    std::string kept;
    while (gone < most && ahead == 0 && at > 0) {
        const double number = numberBefore(bytes, at);
        if (log.hasRuns && bytes[at] == kCompactRun) {
            const double ofRun = std::min(number, most - gone);
            gone += ofRun;
            kept.clear();
            appendSame(kept, log, number - ofRun);
        } else {
            ahead = number;
            gone++;
        }
    }
    if (gone == most || ahead > 0) {
        log.latest = bytes.substr(0, at) + kept;
        if (place.hasBehind) {
            appendNumber(log.latest, ahead + place.behind);
        } else {
            log.newest = place.entry - ahead;
        }
        log.latest.append(bytes, place.rest);
    } else if (log.filled > 0 || !log.next.empty()) {
        flatten(log);  // the one before stands there
        return takeOut(log, logged, hasStepped, most);
    } else {
        gone++;
        log.oldest = place.entry + (place.hasBehind ? place.behind : 0);
        log.latest = bytes.substr(place.rest);
    }
    if (gone > log.used) {
        throw Error{kNotCompact};
    }
    log.used -= gone;
    return true;
}

namespace {

struct Number {
    double value;
    bool isRun;
};

}  // namespace

/// Some numbers of a log that an entry has left.
struct CompactLog::Numbers {
    std::vector<Number> all;
    std::size_t changed = 0;  // the index of what has changed
    std::size_t last = 0;     // so many are there up to the one behind it
    std::size_t past = 0;     // so many bytes there were up to that
    double gone = 0;          // entries
    double later = 0;         // ms that the oldest entry is later

    /// The numbers in `bytes` without up to `most` entries of the time that the entry has whose number ends before
    /// `at`. Runs of no entries are left out. `fromOldest`: the entry before the first number is the oldest one.
    /// nullopt: these numbers do not tell all.
    static std::optional<Numbers> without(const Log& log, std::string_view bytes, double at, double most,
                                          bool fromOldest) {
        std::vector<Number> numbers;
        std::vector<std::size_t> ends;
        std::optional<std::size_t> found = at == 0 ? std::optional<std::size_t>(0) : std::nullopt;
        for (std::size_t end = 0; end < bytes.size();) {
            const bool isRun = log.hasRuns && bytes[end] == kCompactRun;
            numbers.push_back({numberAt(bytes, end), isRun});
            ends.push_back(end);
            if (!found && static_cast<double>(end) == at) {
                found = numbers.size();
            }
            if (numbers.back().value > kMostEntriesOfLog) {
                return std::nullopt;
            }
        }
        if (!found) {
            return std::nullopt;
        }
        const auto isSame = [](const Number& number) { return number.isRun || number.value == 0; };
        std::size_t place = *found;  // so many numbers up to that of the first entry of this time
        while (place > 0 && isSame(numbers[place - 1])) {
            place--;
        }
        std::size_t behind = place;
        double entries = 1;
        while (behind < numbers.size() && isSame(numbers[behind])) {
            entries += numbers[behind].isRun ? numbers[behind].value : 1;
            behind++;
        }
        if (behind == numbers.size() || (place == 0 && !fromOldest)) {
            return std::nullopt;
        }

        Numbers left;
        const auto keep = [&](Number number) {
            if (number.value > 0 || !number.isRun) {
                left.all.push_back(number);
            }
        };
        for (std::size_t i = 0; i + 1 < place; i++) {
            keep(numbers[i]);
        }
        left.changed = left.all.size();
        if (entries > most) {
            const double more = entries - 1 - most;
            if (place > 0) {
                keep(numbers[place - 1]);
            }
            if (log.hasRuns && more >= kShortestRun) {
                keep({more, true});
            } else {
                left.all.insert(left.all.end(), static_cast<std::size_t>(more), {0, false});
            }
            keep(numbers[behind]);
        } else if (place > 0) {
            keep({numbers[place - 1].value + numbers[behind].value, false});
        } else {
            left.later = numbers[behind].value;
        }
        left.last = left.all.size();
        for (std::size_t i = behind + 1; i < numbers.size(); i++) {
            keep(numbers[i]);
        }
        left.past = ends[behind];
        left.gone = std::min(entries, most);
        if (left.gone > log.used) {
            throw Error{kNotCompact};
        }
        return left;
    }

    /// The bytes of the first `count` numbers, and of `spare` bytes that stand for nothing, beside the number that has
    /// changed or the next ones, else those before it: zeros in front of the number of a run, or a run of no entries in
    /// front of another one. So a number has up to kRoomyNumber bytes. An entry of the time of the one before is a
    /// run of one, too. nullopt: there is no place for them.
    std::optional<std::string> text(std::size_t count, double spare) const {
        std::vector<std::string> texts(count);
        for (std::size_t i = 0; i < count; i++) {
            if (all[i].isRun) {
                texts[i].push_back(kCompactRun);
            }
            appendNumber(texts[i], all[i].value);
        }
        auto place = static_cast<std::ptrdiff_t>(changed);
        std::ptrdiff_t step = 1;
        while (spare > 0) {
            if (place < 0) {
                return std::nullopt;
            }
            if (place >= static_cast<std::ptrdiff_t>(count)) {
                place = static_cast<std::ptrdiff_t>(changed);
                step = -1;
            } else {
                spare -= fill(texts[static_cast<std::size_t>(place)], all[static_cast<std::size_t>(place)], spare);
            }
            place += step;
        }
        std::string out;
        for (const std::string& each : texts) {
            out += each;
        }
        return out;
    }

  private:
    /// Puts some of the spare bytes beside this number, and returns how many.
    static double fill(std::string& text, const Number& number, double spare) {
        double some = std::min(spare, kRoomyNumber - sizeOf(text));
        if (number.isRun || number.value == 0) {
            some = std::max(some, 0.0);
            if (some > 0 && !number.isRun) {
                text = '\1';
            }
            text.insert(0, static_cast<std::size_t>(some), kCompactRun);
            return some;
        }
        some -= spare - some == 1 ? 1 : 0;
        if (some < 2) {
            return 0;
        }
        std::string nothing(static_cast<std::size_t>(some) - 1, kCompactRun);
        nothing.push_back('\0');
        text.insert(0, nothing);
        return some;
    }
};

namespace {

/// Whole numbers at the end.
void cutBehind(std::string& bytes) {
    bytes.erase(std::find_if(bytes.rbegin(), bytes.rend(), isEnd).base(), bytes.end());
}

}  // namespace

/// takeOut() of an entry that is neither among the newest ones nor in front, when the clock has not stepped back: the
/// bytes near it are overwritten. nullopt: takeOut() has to do it.
std::optional<bool> CompactLog::takeOutOfRing(Log& log, double logged, double most) {
    if (log.filled == 0 || logged >= log.newest) {
        return std::nullopt;
    }
    if (logged < log.oldest) {
        return false;
    }
    const bool forward = logged - log.oldest <= log.newest - logged;
    const Walk found = walk(log, forward, kEndless, forward ? logged - 1 : logged);
    if (found.entry != logged) {
        return false;
    }
    const double ofNext = sizeOf(log.next);
    const double place = (forward ? found.bytes : ofNext + log.filled + sizeOf(log.latest) - found.bytes) - ofNext;
    if (place > 0 && place <= log.filled && takeOutInside(log, place, most)) {
        return true;
    }
    if (place <= kCompactFront && takeOutInFront(log, place, most)) {
        return true;
    }
    return std::nullopt;
}

/// The number of the entry ends after `place` bytes of the ring. False: what is near does not tell.
bool CompactLog::takeOutInside(Log& log, double place, double most) {
    double from = std::max<double>(place - kCompactFront, 0);
    std::string bytes = ofRing(log, from, std::min(place + kCompactFront, log.filled) - from);
    if (from > 0) {
        const auto first = std::ranges::find_if(bytes, isEnd);
        if (first != bytes.end()) {
            from += static_cast<double>(first - bytes.begin()) + 1;
            bytes.erase(bytes.begin(), first + 1);
        }
    }
    cutBehind(bytes);
    const double to = from + sizeOf(bytes);
    const std::optional<Numbers> numbers = Numbers::without(log, bytes, place - from, most, false);
    if (!numbers) {
        return false;
    }
    log.used -= numbers->gone;
    log.place.reset();
    const std::string text = numbers->text(numbers->all.size(), 0).value();
    const double spare = sizeOf(bytes) - sizeOf(text);
    std::optional<std::string> sameSize;
    if (spare == 0) {
        sameSize = text;
    } else if (log.canHaveRuns()) {
        sameSize = numbers->text(numbers->all.size(), spare);
    }
    if (sameSize) {
        log.hasRuns = log.hasRuns || spare > 0;
        std::size_t first = 0;
        std::size_t last = bytes.size();
        while (first + 1 < last && bytes[first] == (*sameSize)[first]) {
            first++;
        }
        while (last > first + 1 && bytes[last - 1] == (*sameSize)[last - 1]) {
            last--;
        }
        log.patchAt = from + static_cast<double>(first);
        log.patch = sameSize->substr(first, last - first);
    } else if (from < log.filled - to) {
        log.patchAt = 0;
        log.patch = ofRing(log, 0, from) + text;
        log.begin = std::fmod(log.begin + spare, log.size);
        log.filled -= spare;
    } else {
        log.latest = text + ofRing(log, to, log.filled - to) + log.latest;
        log.filled = from;
    }
    return true;
}

/// The same of an entry that is in front, or soon.
bool CompactLog::takeOutInFront(Log& log, double place, double most) {
    const double ofNext = sizeOf(log.next);
    std::string head = ofRing(log, 0, std::min<double>(log.filled, kCompactFront));
    if (sizeOf(head) < log.filled) {
        cutBehind(head);
    }
    const std::optional<Numbers> numbers = Numbers::without(log, log.next + head, ofNext + place, most, true);
    if (!numbers) {
        return false;
    }
    std::string next = numbers->text(numbers->last, 0).value();
    if (numbers->past < log.next.size()) {
        next.append(log.next, numbers->past);
    }
    if (next.size() > kCompactFront) {
        return false;
    }
    log.used -= numbers->gone;
    log.oldest += numbers->later;
    log.next = next;
    log.place.reset();
    const double ofRing = static_cast<double>(numbers->past) - ofNext;
    if (ofRing > 0) {
        log.begin = std::fmod(log.begin + ofRing, log.size);
        log.filled -= ofRing;
    }
    return true;
}

void CompactLog::writePatch(Log& log) {
    const double at = std::fmod(log.begin + log.patchAt, log.size);
    const std::string_view bytes = log.patch;
    const std::size_t first = std::min(bytes.size(), static_cast<std::size_t>(log.size - at));
    Key key(redis_, clock_, log.key);
    key.overwrite(static_cast<std::size_t>(log.base + at), bytes.substr(0, first));
    if (first < bytes.size()) {
        key.overwrite(static_cast<std::size_t>(log.base), bytes.substr(first));
    }
}

/// The last thing that is done to a log in a call, where nothing is left of it.
void CompactLog::write(Log& log) {
    if (log.used == 0 && !log.isBlocked) {
        redis_.call(kDel, log.key, {});
    } else {
        add(log, {.names = 0, .from = 1, .to = 0}, nullptr, false);
    }
}

bool CompactLog::takeBack(Log& log, std::size_t, double logged, double taken, bool& isBlocked) {
    const Found found = read(log);
    if (found.error != nullptr || log.cost == 0) {
        return false;
    }
    log.patch.clear();
    const bool hasStepped = clock_.isOwn && clock_.now < taken;
    const std::optional<bool> isOut = hasStepped ? std::nullopt : takeOutOfRing(log, logged, log.cost);
    if (!(isOut ? *isOut : takeOut(log, logged, hasStepped, log.cost))) {
        return false;
    }
    isBlocked = found.isBlocked;
    const double ttl = log.ttl;
    if (isBlocked) {
        log.ttl = std::max(ttl, static_cast<double>(integerOf(log.blockedUntil - clock_.now)));
    }
    Key(redis_, clock_, log.key).expireIn(log.ttl);  // what has begun to write is not refused for want of memory
    if (!log.patch.empty()) {
        writePatch(log);
    }
    write(log);
    log.ttl = ttl;
    return true;
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

/// The oldest entries leave: so many, or those that are not after `time`; and never all.
void CompactLog::drop(Log& log, double most, double time) {
    const Walk found = walk(log, true, most, time);
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

/// So many entries leave the run that the first number is.
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

// ---- reading

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

/// A log in its blocked form.
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

/// What a blocked log begins with, where that stands for nothing: runs of no entries.
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

/// The fields of the form, and whether there is a newest entry.
Found CompactLog::readFront(Log& log) {
    Key key(redis_, clock_, log.key);
    if (key.type() != api::Empty && key.type() != api::String) {
        return {.error = kWrongType};
    }
    const std::string_view bytes = key.bytes();
    log.changed = log.has = log.hasRuns = false;
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
        log.changed = found.isBlocked && log.has && log.used > 0;  // else what is stale stays
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

/// What has left the window leaves; false if the log cannot have been written so.
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

// ---- what is asked of it

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

/// The time of the entry that `skipped` others are older than, from the nearer end, or from where that of the request
/// before was found.
double CompactLog::arrival(Log& log, double skipped) {
    const Place* from = log.place && log.place->passed <= skipped ? &*log.place : nullptr;
    if (skipped - (from != nullptr ? from->passed : 0) < log.used - skipped) {
        const Walk found = walk(log, true, skipped, kEndless, from);
        if (!(found.entry <= log.newest)) {
            throw Error{kNotCompact};
        }
        log.place = Place{.entry = found.entry, .passed = found.passed, .bytes = found.bytes, .within = found.within};
        return found.entry;
    }
    const Walk found = walk(log, false, log.used - 1 - skipped, -kEndless);
    if (!(found.entry >= log.oldest)) {
        throw Error{kNotCompact};
    }
    const bool isWithin = found.within > 0;
    const double all = sizeOf(log.next) + log.filled + sizeOf(log.latest);
    log.place = Place{.entry = found.entry,
                      .passed = skipped,
                      .bytes = all - found.bytes - (isWithin ? found.runBytes : 0),
                      .within = isWithin ? found.run - found.within : 0};
    return found.entry;
}

double CompactLog::roomAt(Log& log, double missing) {
    return arrival(log, missing - 1) + log.window;
}

// ---- writing

namespace {

/// Appends so many bytes of a blocked log that stand for nothing: runs of no entries.
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

/// Bytes at the beginning of a blocked log that may stand for nothing. If entries leave, they are more, and the log is
/// not written whole.
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
        dead = fits && live > 4 * kCompactFront ? 2 : 0;  // what stands for nothing can be added to if it is there
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
    // a reservation lives as long as an entry that is made when it is due
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
