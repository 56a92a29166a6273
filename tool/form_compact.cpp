// algorithm=compact: a STRING, as the head of lua/compact_log.lua describes it.
#include <algorithm>
#include <array>

#include "failure.hpp"
#include "forms.hpp"
#include "limit/compact_head.hpp"

namespace sliding_log::tool {

namespace {

using namespace std::string_view_literals;

constexpr std::array kCompactCommands = {"time"sv, "getrange"sv, "setrange"sv, "set"sv, "pexpire"sv, "del"sv, "pttl"sv};

constexpr std::size_t kMostBytes = 64'000'000;  // of a log that is read as a whole: about 30 million requests

constexpr const char* kNotCompact = "the key is a string, but not a log of algorithm=compact";

/// A blocked log has no ring.
struct Head : CompactState<std::int64_t> {
    std::int64_t blockedUntil = 0;  // 0: not blocked
};

/// nullopt: not a log of this form.
std::optional<Head> readHead(std::string_view bytes) {
    if (hasCompactState(bytes)) {
        return Head{CompactState<std::int64_t>::read(bytes)};
    }
    if (hasCompactBlock(bytes)) {
        const auto block = CompactBlock<std::int64_t>::read(bytes);
        return Head{{.hasRuns = block.hasRuns, .oldest = block.oldest, .newest = block.newest, .used = block.used},
                    block.until};
    }
    return std::nullopt;
}

/// The numbers between the entries, in their order: next, the contents of the ring, latest.
std::optional<std::string> distances(std::string_view log, const Head& head) {
    if (head.blockedUntil != 0) {
        return std::string(log.substr(kCompactBlockedBytes));
    }
    const auto at = [](std::int64_t number) { return static_cast<std::size_t>(number); };
    const bool fits = kCompactStateBytes + head.nextBytes + head.latestBytes <= log.size() &&
                      head.filled <= head.size &&
                      (head.filled == 0 || (head.begin < head.size && kCompactHead + at(head.size) <= log.size()));
    if (!fits) {
        return std::nullopt;
    }
    std::string bytes(log.substr(kCompactStateBytes, head.nextBytes));
    if (head.filled > 0) {
        const std::string_view ring = log.substr(kCompactHead, at(head.size));
        const std::string_view end = ring.substr(at(head.begin), at(head.filled));
        bytes.append(end).append(ring.substr(0, at(head.filled) - end.size()));
    }
    return bytes.append(log.substr(kCompactStateBytes + head.nextBytes, head.latestBytes));
}

/// Calls visit(time, entries before, entries) for the entries of the log, from the oldest on. Returns their number.
template <typename Visit>
std::int64_t forEach(std::string_view numbers, const Head& head, Visit visit) {
    constexpr std::int64_t kMostMs = 1LL << 48;
    std::int64_t ms = head.oldest;
    std::int64_t passed = 0;
    const auto pass = [&](std::int64_t entries) {
        visit(ms, passed, entries);
        passed += entries;
    };
    if (head.used > 0) {
        pass(1);
    }
    for (std::size_t at = 0; at < numbers.size() && head.used > 0;) {
        const bool isRun = head.hasRuns && numbers[at] == kCompactRun;
        std::int64_t number = 0;
        bool isWhole = false;
        while (at < numbers.size() && !isWhole && number < kMostMs) {
            const auto byte = static_cast<unsigned char>(numbers[at++]);
            number = number << 7 | (byte & 0x7f);
            isWhole = byte < 0x80;
        }
        ms += isRun ? 0 : number;
        if (!isWhole || number >= kMostMs || ms >= kMostMs) {
            throw CouldNotAsk(kNotCompact);
        }
        pass(isRun ? number : 1);
        if (passed > head.used) {
            break;
        }
    }
    return passed;
}

Command probeCompact(const std::string& key) {
    return {"GETRANGE", key, "0", std::to_string(kCompactStateBytes - 1)};
}

bool isCompact(ReplyView probed) {
    return readHead(probed.text()).has_value();
}

std::optional<std::int64_t> countOfCompact(ReplyView probed) {
    const std::optional<Head> head = readHead(probed.text());
    return head ? std::optional(head->used) : std::nullopt;
}

State readCompact(Store& store, const std::string& key, const ReadSettings& settings) {
    const Reply reply = store.ask(key, {"GETRANGE", key, "0", std::to_string(kMostBytes - 1)});
    const std::string_view log = checked(reply, "GETRANGE").text();
    const std::optional<Head> head = readHead(log);
    const std::optional<std::string> numbers = head ? distances(log, *head) : std::nullopt;
    if (!numbers) {
        throw CouldNotAsk(kNotCompact);
    }
    const bool isGuess = !settings.windowMs && head->blockedUntil == 0;  // a block also prolongs the key's life
    State state;
    state.entries = head->used;
    state.windowMs = isGuess ? guessWindow(settings, head->touched) : settings.windowMs;
    const std::int64_t horizon = settings.nowMs - state.windowMs.value_or(0);
    const std::int64_t limit = settings.limit.value_or(0);
    std::int64_t inWindow = 0;
    std::int64_t leavesMs = 0;  // the time of the entry that leaves before there is room for one
    const std::int64_t found =
        forEach(*numbers, *head, [&](std::int64_t ms, std::int64_t before, std::int64_t entries) {
            inWindow += ms > horizon ? entries : 0;
            if (before <= head->used - limit && head->used - limit < before + entries) {
                leavesMs = ms;
            }
            state.oldestMs = state.oldestMs.value_or(ms);
            state.newestMs = ms;
        });
    if (found != head->used) {
        throw CouldNotAsk("the log counts " + std::to_string(head->used) + " entries, but has " +
                          std::to_string(found));
    }
    if (state.windowMs) {
        state.used = inWindow;
    }
    if (state.windowMs && settings.limit) {
        state.remaining = std::max<std::int64_t>(limit - inWindow, 0);
        state.retryMs = limit == 0 ? -1 : inWindow < limit ? 0 : leavesMs - horizon;
    }
    state.blockedMs = std::max<std::int64_t>(head->blockedUntil - settings.nowMs, 0);
    return state;
}

}  // namespace

const Form kCompactForm = {Algorithm::Compact, kCompactCommands, {},         probeCompact,
                           isCompact,          countOfCompact,   readCompact};

}  // namespace sliding_log::tool
