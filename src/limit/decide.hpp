// One decision over the logs of a request: the rules that all algorithms share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/log_state.hpp"
#include "limit/verdict.hpp"

namespace sliding_log {

namespace deciding {

/// The wait until there is room, with what is left of a block.
inline std::int64_t retryOf(const LogState& log, const Question& question, std::uint64_t now) {
    const std::int64_t retry = log.msUntilRoom(question, now);
    if (retry == Verdict::kNever || log.blockedUntil() <= now) {
        return retry;
    }
    return std::max(retry, static_cast<std::int64_t>(log.blockedUntil() - now));
}

/// Whether this log denies the request; if not, `slot` is moved on to where it has place.
inline bool denies(LogState& log, const Question& question, std::uint64_t now, std::uint64_t& slot) {
    const bool isBlocked = log.blockedUntil() > now;
    const std::int64_t wait = log.msUntilRoom(question, now);
    if (wait == 0 && !isBlocked) {
        return false;
    }
    if (wait > 0 && !isBlocked && question.delayMs > 0) {
        const std::int64_t msUntilSlot = log.msUntilSlot(question, now, wait);
        if (msUntilSlot <= question.delayMs) {
            slot = std::max(slot, now + static_cast<std::uint64_t>(msUntilSlot));
            return false;
        }
    }
    if (question.blockMs > 0 && !isBlocked && question.limit > 0) {
        log.block(now, question.blockMs);
    }
    return true;
}

/// A denied attempt counts as far as the cap and the memory allow.
template <typename Grow>
void countDenied(LogState& log, const Question& question, std::uint64_t now, std::string_view unique, Grow& grow) {
    const std::int64_t entries = log.entriesOfDenied(question, now, log.entriesOf(question, unique));
    const std::size_t cells = log.cellsToAdd(now, now, entries);
    if (cells == 0 || grow(log, cells)) {
        log.addDenied(question, now, entries);
    }
}

}  // namespace deciding

/// All or nothing over the questions, each of which asks the log beside it; all logs suit their questions, and no log
/// is there twice. `now` is not before any time they were asked at. `grow(log, cells)` gives the log so many cells, or
/// returns false. False: an admitted request could not be logged, and is in no log.
/// `loggedMs` is set to the time of an admitted request's entries.
template <typename Grow>
bool decide(std::span<const Question> questions, std::span<LogState* const> logs, std::span<Verdict> verdicts,
            std::uint64_t now, std::string_view unique, std::uint64_t& loggedMs, Grow&& grow) {
    std::uint64_t slot = now;
    bool admitted = true;
    for (std::size_t i = 0; i < questions.size(); i++) {
        logs[i]->advance(questions[i], now);
        if (deciding::denies(*logs[i], questions[i], now, slot)) {
            admitted = false;
        }
    }
    loggedMs = slot;

    for (std::size_t i = 0; admitted && i < questions.size(); i++) {
        const std::size_t cells = logs[i]->cellsToAdd(now, slot, logs[i]->entriesOf(questions[i], unique));
        if (cells > 0 && !grow(*logs[i], cells)) {
            return false;
        }
    }
    for (std::size_t i = 0; i < questions.size(); i++) {
        const Question& question = questions[i];
        LogState& log = *logs[i];
        if (admitted) {
            log.add(question, slot, log.entriesOf(question, unique));
        } else if (question.countsAll) {
            deciding::countDenied(log, question, now, unique, grow);
        }
        verdicts[i].remaining = log.remaining(question, now);
        verdicts[i].resetMs = log.resetMs(question, now);
        verdicts[i].retryMs = admitted ? 0 : deciding::retryOf(log, question, now);
        verdicts[i].delayMs = admitted ? static_cast<std::int64_t>(slot - now) : 0;
    }
    return true;
}

/// Takes back what a request that was decided at `takenMs` logged at `loggedMs`, if it is still there. A block that
/// began since ends with it, if the log then has room for such a request: whoever was denied meanwhile was so by an
/// attempt that did not count in the end. The log suits the question; `now` as for decide().
inline void takeBack(LogState& log, const Question& question, std::uint64_t now, std::string_view unique,
                     std::uint64_t loggedMs, std::uint64_t takenMs) {
    log.advance(question, now);
    if (!log.remove(loggedMs, log.entriesOf(question, unique))) {
        return;
    }
    const bool isBlocked = log.blockedUntil() > now;
    if (isBlocked && log.blockedSince() >= takenMs && log.msUntilRoom(question, now) == 0) {
        log.unblock();
    }
}

}  // namespace sliding_log
