#include <algorithm>
#include <array>
#include <cstring>

#include "compact_state.hpp"
#include "plain.hpp"

namespace sliding_log::native {

namespace {

bool isLastByte(char byte) {
    return static_cast<unsigned char>(byte) < 128;
}

/// The bytes of a number below 128^3.
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
                        PlainReply& reply) {
    const double now = clock.now;
    const double horizon = now - asked.window;

    Key key(redis, clock, keyName);
    if (asked.limit < 1 || (key.type() != api::Empty && key.type() != api::String)) {
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
        // nothing there but what is whole, and not ahead of now
        const double bytes = static_cast<double>(state.nextBytes + state.latestBytes) + state.filled;
        const double fewest = state.hasRuns ? std::min(state.used - 1, 1.0) : state.used - 1;
        if (!(state.newest <= now && state.oldest <= state.newest && bytes >= fewest &&
              bytes <= (state.used - 1) * kLongestNumber && state.filled <= state.size &&
              kCompactStateBytes + state.nextBytes + state.latestBytes <= length)) {
            return false;
        }
    }
    if (length == 0 || state.newest <= horizon) {
        CompactState<double> first{.oldest = now, .newest = now, .used = 1, .touched = now};
        std::array<char, kCompactStateBytes> bytes;
        writeState(first, bytes.data());
        reply = {true, now, asked.limit - 1, asked.window, 0};
        return key.set({bytes.data(), bytes.size()}, asked.ttl) == nullptr;
    }

    // what leaves; what has to be read from the ring, or written to it, is left to the frame
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
    if (!(state.oldest <= state.newest && state.used >= 1)) {
        return false;
    }
    if (room == 0 && left == 0) {
        reply = {false, now, 0, reset, std::max(reset, 1.0)};
        return true;
    }
    constexpr double kLongestShort = 128 * 128 * 128;
    const double ms = now - state.newest;
    if (!(room > 0 && ms < kLongestShort)) {
        return false;
    }
    std::array<char, kCompactHead + 3> out;
    const std::size_t numbers = state.nextBytes + state.latestBytes;
    std::memcpy(out.data() + kCompactStateBytes, front.data() + at, numbers);
    const std::size_t added = writeNumber(out.data() + kCompactStateBytes + numbers, ms);
    if (numbers + added > kCompactFront) {
        return false;
    }
    const bool isDue = state.size == 0 || state.touched > now || (now - state.touched) * 2 >= asked.ttl - asked.window;
    state.newest = now;
    state.used++;
    state.touched = isDue ? now : state.touched;
    state.latestBytes += added;
    writeState(state, out.data());
    const std::string_view bytes(out.data(), kCompactStateBytes + numbers + added);
    if (state.size == 0) {
        if (key.set(bytes, asked.ttl) != nullptr) {
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
    reply = {true, now, room - 1, reset, 0};
    return true;
}

}  // namespace sliding_log::native
