// algorithm=compact: how entries in the middle of a log leave it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compact_inside.hpp"

namespace sliding_log::native {

namespace {

/// The maximum bytes of a number with bytes that stand for nothing: the version before may add a byte to it.
constexpr double kRoomyNumber = kLongestNumber - 1;
constexpr double kNear = 12;  // bytes on both sides of a number that are tried first

}  // namespace

/// Removes up to `most` entries of the time `logged`; entries of the same millisecond are equal. If the clock
/// `hasStepped` back since, the entries may have been moved to an earlier time, together with all later ones: then it
/// removes entries of the newest time that is not after `logged`. Returns false if there are none: they have left.
bool CompactLog::takeOut(Log& log, double logged, bool hasStepped, double most) {
    const double pulled = log.hasRuns ? std::min<double>(most, kCompactFront) : most;
    const Split place = split(log, logged, pulled + kLongestNumber);
    if (log.used == 0 || !place.has || (place.entry != logged && !hasStepped)) {
        return false;
    }
    const std::string bytes = log.latest;
    // an entry of the same time as the one before it is a number of one zero byte, or is in a run
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
    at = ahead > 0 ? beforeNothing(log, bytes, at) : at;
    if (gone == most || ahead > 0) {
        log.latest = bytes.substr(0, at) + kept;
        if (place.hasBehind) {
            appendNumber(log.latest, ahead + place.behind);
        } else {
            log.newest = place.entry - ahead;
        }
        log.latest.append(bytes, place.rest);
    } else if (log.filled > 0 || !log.next.empty()) {
        flatten(log);  // the entry before is in the ring or in `next`
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

/// Some numbers of a log, after entries were taken out of them.
struct CompactLog::Numbers {
    struct Number {
        double value;
        bool isRun;
    };

    std::vector<Number> all;
    std::size_t changed = 0;  // the index of the first changed number
    std::size_t last = 0;     // how many numbers there are up to the one behind the change
    std::size_t past = 0;     // how many bytes there were up to that one before the change
    double gone = 0;          // how many entries were taken out
    double later = 0;         // how many ms the oldest entry is later

    /// Takes up to `most` entries out of the numbers in `bytes`: entries of the time of the entry whose number ends
    /// before `at`. Runs of no entries are left out, too. `fromOldest`: the entry before the first number is the oldest
    /// one. Returns nullopt if entries of that time may be outside of `bytes`.
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
        std::size_t place = *found;  // the count of numbers up to that of the first entry of this time
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

    /// The bytes of the first `count` numbers, longer by `spare` bytes that stand for nothing. These are added to the
    /// changed number and those behind it, then to those before it, until each has kRoomyNumber bytes: as zeros in
    /// front of the number of a run, or as a run of no entries in front of another number. To take them, an entry of
    /// the time of the one before it is written as a run of one. Returns nullopt if there is no place for all of them.
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
    /// Adds some of the spare bytes to this number, and returns how many.
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

/// Removes the incomplete number at the end, if there is one.
void cutBehind(std::string& bytes) {
    bytes.erase(std::find_if(bytes.rbegin(), bytes.rend(), isEnd).base(), bytes.end());
}

}  // namespace

/// Does what takeOut() does, but overwrites only the bytes near the entries. Not to be called if the clock has stepped
/// back. Returns nullopt if takeOut() has to do it, as for the newest entries.
std::optional<bool> CompactLog::takeOutOfRing(Log& log, double logged, double most) {
    if (log.filled == 0 || logged >= log.newest) {
        return std::nullopt;
    }
    if (logged < log.oldest) {
        return false;
    }
    const std::optional<double> found = placeOf(log, logged);
    if (!found) {
        return false;
    }
    const double place = *found - sizeOf(log.next);
    if (place > 0 && place <= log.filled &&
        (takeOutInside(log, logged, place, most, kNear, false) ||
         takeOutInside(log, logged, place, most, kCompactFront, true))) {
        return true;
    }
    if (place <= kCompactFront && takeOutInFront(log, place, most)) {
        return true;
    }
    return std::nullopt;
}

/// The number of the entry, which is of the time `logged`, ends after `place` bytes of the ring. False: what is near
/// The number of the entry, which is of the time `logged`, ends after `place` bytes of the ring: up to `reach` bytes on
/// both sides of that are written anew. False: they do not tell all; or, unless others `mayMove`, spare bytes have no
/// place there.
bool CompactLog::takeOutInside(Log& log, double logged, double place, double most, double reach, bool mayMove) {
    double from = std::max<double>(place - reach, 0);
    std::string bytes = ofRing(log, from, std::min(place + reach, log.filled) - from);
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
    const std::string text = numbers->text(numbers->all.size(), 0).value();
    const double spare = sizeOf(bytes) - sizeOf(text);
    std::optional<std::string> sameSize;
    if (spare == 0) {
        sameSize = text;
    } else if (log.canHaveRuns()) {
        sameSize = numbers->text(numbers->all.size(), spare);
    }
    if (!sameSize && !mayMove) {
        return false;
    }
    log.used -= numbers->gone;
    log.place.reset();
    if (sameSize) {
        const double ahead = spanOf(log, std::string_view(bytes).substr(0, static_cast<std::size_t>(place - from)));
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
        Marks::unmark(log, std::fmod(log.begin + log.patchAt, log.size), static_cast<double>(last - first));
        log.left = {
            .key = log.key, .at = std::fmod(log.begin + from, log.size), .size = log.size, .entry = logged - ahead};
    } else if (from < log.filled - to) {
        log.patchAt = 0;
        log.patch = ofRing(log, 0, from) + text;
        Marks::unmark(log, log.begin, to);
        log.begin = std::fmod(log.begin + spare, log.size);
        log.filled -= spare;
    } else {
        log.latest = text + ofRing(log, to, log.filled - to) + log.latest;
        Marks::unmark(log, std::fmod(log.begin + from, log.size), log.filled - from);
        log.filled = from;
    }
    return true;
}

/// The same for an entry in `next`, or near the beginning of the ring.
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
    Key(redis_, clock_, log.key).expireIn(log.ttl);  // a call that has written is not refused memory
    if (!log.patch.empty()) {
        writePatch(log);
    }
    write(log);
    log.ttl = ttl;
    return true;
}

}  // namespace sliding_log::native
