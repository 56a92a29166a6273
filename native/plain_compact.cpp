#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "compact_log.hpp"
#include "compact_numbers.hpp"
#include "compact_state.hpp"
#include "plain.hpp"

namespace sliding_log::native {

namespace {

/// The maximum bytes that a request adds: a time and a run.
constexpr std::size_t kMostAdded = 3 + 1 + static_cast<std::size_t>(kLongestNumber);

bool isLastByte(char byte) {
    return static_cast<unsigned char>(byte) < 128;
}

/// Writes the entries of a request after its first one.
std::size_t writeSame(char* out, double cost) {
    if (cost <= kShortestRun) {
        const auto zeros = static_cast<std::size_t>(cost) - 1;
        std::fill_n(out, zeros, '\0');
        return zeros;
    }
    const auto entries = static_cast<std::uint64_t>(cost) - 1;
    std::size_t size = 1;
    for (std::uint64_t rest = entries; rest >= 128; rest /= 128) {
        size++;
    }
    out[0] = kCompactRun;
    for (std::size_t i = 0; i < size; i++) {
        const std::uint64_t digit = entries >> (7 * (size - 1 - i)) & 127;
        out[1 + i] = static_cast<char>(digit | (i + 1 < size ? 128 : 0));
    }
    return 1 + size;
}

/// Walks over whole numbers, from the oldest on: adds to `time` up to that of the entry behind `older` others, and
/// counts `older` down. It is above 0 in the end if there were not enough numbers.
void passAhead(std::string_view numbers, bool hasRuns, double& older, double& time) {
    for (std::size_t at = 0; older > 0 && at < numbers.size(); at++) {
        const bool isRun = hasRuns && numbers[at] == kCompactRun;
        double number = 0;
        for (; !isLastByte(numbers[at]); at++) {
            number = (number + static_cast<unsigned char>(numbers[at]) - 128) * 128;
        }
        number += static_cast<unsigned char>(numbers[at]);
        older -= isRun ? number : 1;
        time += isRun ? 0 : number;
    }
}

/// The same from the newest back.
void passBack(std::string_view numbers, bool hasRuns, double& newer, double& time) {
    for (std::size_t at = numbers.size(); newer > 0 && at > 0;) {
        double number = static_cast<unsigned char>(numbers[--at]);
        for (double scale = 128; at > 0 && !isLastByte(numbers[at - 1]); scale *= 128) {
            number += (static_cast<unsigned char>(numbers[--at]) - 128) * scale;
        }
        const bool isRun = hasRuns && numbers[at] == kCompactRun;
        newer -= isRun ? number : 1;
        time -= isRun ? 0 : number;
    }
}

/// The first numbers in the ring, as far as they are whole; empty if their bytes are in two pieces.
std::string_view ringOf(std::string_view log, const CompactState<double>& state) {
    const auto length = static_cast<std::size_t>(std::min<double>(state.filled, kCompactFront / 2));
    const auto begin = kCompactHead + static_cast<std::size_t>(state.begin);
    if (state.begin + static_cast<double>(length) > state.size || begin + length > log.size()) {
        return {};
    }
    std::string_view numbers = log.substr(begin, length);
    while (!numbers.empty() && !isLastByte(numbers.back())) {
        numbers.remove_suffix(1);
    }
    return numbers;
}

/// Finds the time of the entry behind the `older` oldest ones, from the nearer end, as compact_walk.cpp does. Returns
/// false if it is not near that end. `next` and `latest` are adjacent.
bool findArrival(std::string_view log, const CompactState<double>& state, std::string_view next,
                 std::string_view latest, double older, double& time) {
    if (2 * older < state.used) {
        time = state.oldest;
        passAhead(next, state.hasRuns, older, time);
        if (older > 0 && state.filled > 0) {
            passAhead(ringOf(log, state), state.hasRuns, older, time);
        } else if (older > 0 && !latest.empty() && isLastByte(latest.back())) {
            passAhead(latest, state.hasRuns, older, time);
        }
        return older <= 0 && time <= state.newest;
    }
    double newer = state.used - 1 - older;
    time = state.newest;
    const std::string_view numbers =
        state.filled > 0 ? latest : std::string_view(next.data(), next.size() + latest.size());
    if (numbers.empty() || !isLastByte(numbers.back())) {
        return false;
    }
    passBack(numbers, state.hasRuns, newer, time);
    return newer <= 0 && time >= state.oldest;
}

/// Writes a number below 128^3 and returns how many bytes it has.
std::size_t writeNumber(char* out, double number) {
    const auto ms = static_cast<unsigned>(number);
    if (ms < 128) {
        out[0] = static_cast<char>(ms);
        return 1;
    }
    if (ms < 16384) {
        out[0] = static_cast<char>(128 + ms / 128);
        out[1] = static_cast<char>(ms % 128);
        return 2;
    }
    out[0] = static_cast<char>(128 + ms / 16384);
    out[1] = static_cast<char>(128 + ms % 16384 / 128);
    out[2] = static_cast<char>(ms % 128);
    return 3;
}

}  // namespace

bool decidePlainCompact(Redis& redis, const Clock& clock, const Settings& asked, RedisModuleString* keyName,
                        double cost, PlainReply& reply) {
    const double now = clock.now;
    const double horizon = now - asked.window;

    Key key(redis, clock, keyName);
    if (asked.limit < 1 || cost < 1 || cost > CompactLog::kMostEntries ||
        (key.type() != api::Empty && key.type() != api::String)) {
        return false;
    }
    std::array<char, kCompactHead> front;
    CompactState<double> state;
    const std::size_t length = key.bytes().copy(front.data(), kCompactHead);
    if (length > 0) {
        if (!hasCompactState({front.data(), length})) {
            return false;
        }
        state = CompactState<double>::read({front.data(), length});
        if (state.hasRuns && (state.used >= kMostEntriesOfLog || now - state.oldest > kMostEntriesOfLog)) {
            return false;
        }
        // the fields agree with each other, and no entry is ahead of now
        const double bytes = static_cast<double>(state.nextBytes + state.latestBytes) + state.filled;
        const double fewest = state.hasRuns ? std::min(state.used - 1, 1.0) : state.used - 1;
        if (!(state.newest <= now && state.oldest <= state.newest && bytes >= fewest &&
              bytes <= (state.used - 1) * kLongestNumber && state.filled <= state.size &&
              kCompactStateBytes + state.nextBytes + state.latestBytes <= length)) {
            return false;
        }
    }
    const bool isFresh = length == 0 || state.newest <= horizon;
    if (isFresh) {
        state = {.oldest = now, .newest = now, .used = 0, .touched = now};
    }

    // entries that leave; if the ring has to be read or written, the frame decides
    std::size_t at = kCompactStateBytes;
    std::size_t end = kCompactStateBytes + state.nextBytes;
    double left = 0;
    if (state.nextBytes > 0 && !isLastByte(front[end - 1])) {
        return false;
    }
    while (state.oldest <= horizon) {
        if (at >= end) {
            if (state.filled != 0 || state.latestBytes == 0 || !isLastByte(front[end + state.latestBytes - 1])) {
                return false;
            }
            end += state.latestBytes;
            state.latestBytes = 0;
        }
        const bool isRun = state.hasRuns && front[at] == kCompactRun;
        double high = 0;
        auto bits = static_cast<unsigned char>(front[at]);
        while (bits >= 128) {
            high = (high + bits - 128) * 128;
            bits = static_cast<unsigned char>(front[++at]);
        }
        (isRun ? left : state.oldest) += high + bits;
        left += isRun ? 0 : 1;
        at++;
    }
    state.used -= left;
    state.nextBytes = end - at;
    const double room = asked.limit - state.used;
    const double reset = state.oldest + asked.window - now;
    if (!(state.oldest <= state.newest && (state.used >= 1 || isFresh))) {
        return false;
    }
    const bool isAdmitted = room >= cost;
    if (isAdmitted) {
        reply = {true, now, room - cost, reset, 0};
    } else {
        double arrival = state.oldest;
        const double older = cost - room - 1;
        if (cost <= asked.limit && older > 0 &&
            !findArrival(key.bytes(), state, {front.data() + at, state.nextBytes},
                         {front.data() + end, state.latestBytes}, older, arrival)) {
            return false;
        }
        const double retry = cost > asked.limit ? -1 : std::max(arrival + asked.window - now, 1.0);
        reply = {false, now, std::max(room, 0.0), reset, retry};
        if (left == 0) {
            return true;
        }
    }

    std::array<char, kCompactHead + kMostAdded> out;
    const std::size_t numbers = state.nextBytes + state.latestBytes;
    std::memcpy(out.data() + kCompactStateBytes, front.data() + at, numbers);
    std::size_t added = 0;
    if (isAdmitted) {
        constexpr double kLongestShort = 128 * 128 * 128;
        const double ms = now - state.newest;
        const bool hasRuns = state.hasRuns || cost > kShortestRun;
        if (ms >= kLongestShort ||
            (hasRuns && (state.used + cost > kMostEntriesOfLog || now - state.oldest > kMostEntriesOfLog))) {
            return false;
        }
        char* place = out.data() + kCompactStateBytes + numbers;
        added = isFresh ? 0 : writeNumber(place, ms);
        added += writeSame(place + added, cost);
        state.hasRuns = hasRuns;
        state.newest = now;
        state.used += cost;
    }
    if (numbers + added > kCompactFront) {
        return false;
    }
    const bool isLate = state.touched > now || (now - state.touched) * 2 >= asked.ttl - asked.window;
    const bool isDue = state.size > 0 ? isLate : isAdmitted || state.touched > now || state.touched == 0;
    state.touched = isDue ? now : state.touched;
    state.latestBytes += added;
    writeState(state, out.data());
    const std::string_view bytes(out.data(), kCompactStateBytes + numbers + added);
    if (state.size == 0) {
        if (key.set(bytes, isDue ? asked.ttl : 0) != nullptr) {
            return false;
        }
    } else {
        if (key.overwrite(0, bytes) != nullptr) {
            return false;
        }
        if (isDue) {
            key.expireIn(asked.ttl);
        }
    }
    return true;
}

}  // namespace sliding_log::native
