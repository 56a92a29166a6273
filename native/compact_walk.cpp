// algorithm=compact: how entries of a log are found: walks over its numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "compact_inside.hpp"

namespace sliding_log::native {

namespace {

constexpr std::size_t kBlock = 64;

/// The sum of some numbers, their count, and their bytes.
struct Sum {
    double ms = 0;
    double count = 0;
    std::size_t bytes = 0;
};

/// Adds up the numbers in kBlock bytes, of which none is a run. The last one is left out if it goes on behind them. The
/// result is empty if one of them is longer than a number of a log.
Sum addUp(const char* bytes) {
    unsigned char all = 0;
    unsigned total = 0;
    for (std::size_t i = 0; i < kBlock; i++) {
        const auto byte = static_cast<unsigned char>(bytes[i]);
        all |= byte;
        total += byte;
    }
    if (all < 128) {
        return {.ms = static_cast<double>(total), .count = kBlock, .bytes = kBlock};
    }
    std::uint64_t sum = 0;
    std::uint64_t number = 0;
    std::uint64_t longest = 0;
    std::uint64_t count = 0;
    std::size_t end = 0;
    for (std::size_t i = 0; i < kBlock; i++) {
        const auto byte = static_cast<unsigned char>(bytes[i]);
        const std::uint64_t value = number << 7 | (byte & 127U);
        const std::uint64_t isLast = byte < 128 ? 1 : 0;
        const std::uint64_t ifLast = 0 - isLast;  // a mask, not a branch: the processor could not predict it
        longest |= value;
        sum += value & ifLast;
        count += isLast;
        end = ((i + 1) & ifLast) | (end & ~ifLast);
        number = value & ~ifLast;
    }
    if (longest > kMostCompact) {
        return {};
    }
    return {.ms = static_cast<double>(sum), .count = static_cast<double>(count), .bytes = end};
}

}  // namespace

bool CompactLog::Walk::pass(std::string_view numbers) {
    std::size_t at = forward ? 0 : numbers.size();
    std::size_t alone = at;  // numbers up to here are passed one by one
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

/// Passes the numbers of a block, unless the walk ends among them, or one of them is a run.
bool CompactLog::Walk::passBlock(std::string_view numbers, std::size_t& at) {
    if ((forward ? numbers.size() - at : at) < kBlock) {
        return false;
    }
    const std::size_t from = forward ? at : at - kBlock;
    const std::string_view block = numbers.substr(from, kBlock);
    if (hasRuns && block.find(kCompactRun) != std::string_view::npos) {
        return false;
    }
    Sum sum = addUp(block.data());
    if (!forward && sum.count > 0) {
        // the first one may belong to a longer number
        std::size_t past = 0;
        sum.ms -= numberAt(block, past);
        sum.count--;
        sum.bytes -= past;
    }
    const double reached = forward ? entry + sum.ms : entry - sum.ms;
    if (sum.count == 0 || passed + sum.count > most || forward == (reached > time)) {
        return false;
    }
    entry = reached;
    passed += sum.count;
    bytes += static_cast<double>(sum.bytes);
    at = forward ? at + sum.bytes : at - sum.bytes;
    return true;
}

/// `length` bytes of the ring, after the first `skipped`.
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

/// The ms from the entry before these numbers to that of the last one.
double CompactLog::spanOf(const Log& log, std::string_view numbers) {
    Walk walk{.forward = true, .most = kEndless, .time = kEndless, .entry = 0, .hasRuns = log.hasRuns};
    walk.pass(numbers);
    return walk.entry;
}

/// From the oldest entry forward while it is not after `time`, or from the newest back while it is after it; over no
/// more than `most` entries. Where that ends: the entry, how many were passed, the bytes of their numbers, and how many
/// more were passed of a run where it ends. `from`: another place where it begins: forward one where an earlier one has
/// ended, back one in the ring, with the bytes behind it.
CompactLog::Walk CompactLog::walk(const Log& log, bool forward, double most, double time, const Place* from) {
    Walk walk{.forward = forward,
              .most = most,
              .time = time,
              .entry = from != nullptr ? from->entry
                       : forward       ? log.oldest
                                       : log.newest,
              .hasRuns = log.hasRuns};
    const std::string& front = forward ? log.next : log.latest;
    double skipped = 0;
    if (from != nullptr) {
        walk.passed = from->passed - from->within;
        walk.bytes = skipped = from->bytes;
    }
    const auto behind = [](std::string_view bytes, double passed) {
        return bytes.substr(static_cast<std::size_t>(std::min(std::max(passed, 0.0), sizeOf(bytes))));
    };
    const auto before = [](std::string_view bytes, double passed) {
        return bytes.substr(0, bytes.size() - static_cast<std::size_t>(std::min(std::max(passed, 0.0), sizeOf(bytes))));
    };
    bool goesOn = walk.pass(forward ? behind(front, skipped) : before(front, skipped));
    double done = std::min(std::max(skipped - sizeOf(front), 0.0), log.filled);
    double size = kCompactFront;
    while (goesOn && done < log.filled) {
        // a number is one entry or more: no more bytes are read at once than entries are wanted
        const double length =
            std::min({size, log.filled - done, std::max<double>(walk.most - walk.passed, kCompactFront)});
        std::string bytes = ofRing(log, forward ? done : log.filled - done - length, length);
        // only whole numbers; if there is none in so many bytes, they are no numbers of a log
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
        walk.pass(forward ? behind(log.latest, skipped - sizeOf(front) - log.filled) : log.next);
    }
    return walk;
}

/// The time of the entry after the `skipped` oldest ones. The walk begins at the nearer end, or where the walk for the
/// request before has ended.
double CompactLog::arrival(Log& log, double skipped) {
    const Place* from = log.place && log.place->passed <= skipped ? &*log.place : nullptr;
    double rest = log.used - skipped;
    if (log.hasRuns && !log.latest.empty() && log.countsAll) {
        // what was just added, a walk back passes at once
        std::size_t at = log.latest.size();
        const double run = numberBefore(log.latest, at);
        rest = std::max(rest - (log.latest[at] == kCompactRun ? run : 0), 1.0);
    }
    if (skipped - (from != nullptr ? from->passed : 0) < rest) {
        const Walk found = walk(log, true, skipped, kEndless, from);
        if (!(found.entry <= log.newest)) {
            throw Error{kNotCompact};
        }
        log.place = found.place();
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

/// The number that begins after so many bytes of numbers, and how many bytes it has.
double CompactLog::numberAfter(const Log& log, double skipped, double& bytes) {
    const double ahead = skipped - sizeOf(log.next);
    const double behind = ahead - log.filled;
    const std::string number = behind >= 0
                                   ? log.latest.substr(static_cast<std::size_t>(std::min(behind, sizeOf(log.latest))))
                               : ahead < 0 ? log.next.substr(static_cast<std::size_t>(skipped))
                                           : ofRing(log, ahead, std::min(kLongestNumber, -behind));
    std::size_t at = 0;
    const double value = numberAt(number, at);
    bytes = static_cast<double>(at);
    return value;
}

/// Finds what a walk forward to the first entry after `time` would find, by a walk back from the newest one.
CompactLog::Place CompactLog::leftBefore(const Log& log, double time) {
    const Walk back = walk(log, false, kEndless, time);
    if (!(back.entry <= time)) {
        throw Error{kNotCompact};
    }
    const double at = sizeOf(log.next) + log.filled + sizeOf(log.latest) - back.bytes;
    double bytes = 0;
    const double entry = back.entry + numberAfter(log, at, bytes);
    return {.entry = entry, .passed = log.used - back.passed, .bytes = at + bytes, .within = 0};
}

double CompactLog::roomAt(Log& log, double missing) {
    return arrival(log, missing - 1) + log.window;
}

/// How many bytes of numbers there are up to that of an entry of this time. nullopt: there is no such entry.
std::optional<double> CompactLog::placeOf(const Log& log, double time) {
    const Near found = marks_.near(log, time - 1);
    if (time - found.below.entry <= found.above.entry - time) {
        const Walk ahead = walk(log, true, kEndless, time - 1, &found.below);
        return ahead.entry == time ? std::optional(ahead.bytes) : std::nullopt;
    }
    const Walk back = walk(log, false, kEndless, time, &found.above);
    return back.entry == time ? std::optional(sizeOf(log.next) + log.filled + sizeOf(log.latest) - back.bytes)
                              : std::nullopt;
}

}  // namespace sliding_log::native
