// Decides a request over its logs: the rules that all algorithms share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "local/log_state.hpp"

namespace sliding_log {

namespace deciding {

/// The time in ms until there is room and the block, if any, has ended; kNever if there will never be room.
inline std::int64_t retryOf(const LogState& log, const Check& check, std::uint64_t now) {
    const std::int64_t retry = log.msUntilRoom(check, now);
    if (retry == Verdict::kNever || log.blocks().until() <= now) {
        return retry;
    }
    return std::max(retry, static_cast<std::int64_t>(log.blocks().until() - now));
}

/// True if this log denies the request. If it admits the request with a reservation, `reservedAt` is moved to the time
/// of the reservation, unless it is later already.
inline bool denies(LogState& log, const Check& check, std::uint64_t now, std::uint64_t& reservedAt) {
    const bool isBlocked = log.blocks().until() > now;
    const std::int64_t wait = log.msUntilRoom(check, now);
    if (wait == 0 && !isBlocked) {
        return false;
    }
    if (wait > 0 && !isBlocked && check.delayMs > 0) {
        const std::int64_t msUntilReservation = log.msUntilReservation(check, now, wait);
        if (msUntilReservation <= check.delayMs) {
            reservedAt = std::max(reservedAt, now + static_cast<std::uint64_t>(msUntilReservation));
            return false;
        }
    }
    if (check.blockMs > 0 && !isBlocked && check.limit > 0) {
        log.blocks().begin(check, now);
    }
    return true;
}

/// Logs a denied request as far as the cap and the memory permit.
template <typename Grow>
void countDenied(LogState& log, const Check& check, std::uint64_t now, std::string_view unique, Grow& grow) {
    const std::int64_t entries = log.entriesOfDenied(check, now, log.entriesOf(check, unique));
    const std::size_t cells = log.cellsToAdd(now, now, entries);
    if (cells == 0 || grow(log, cells)) {
        log.addDenied(check, now, entries);
    }
}

}  // namespace deciding

/// Decides the checks, all or nothing. Each check asks the log with the same index; the logs must suit their checks,
/// and no log may be there twice. `now` must not be earlier than in previous decisions of these logs. `grow(log,
/// cells)` gives the log this number of cells, or returns false. Returns false if an admitted request could not be
/// logged; it is then in no log. `loggedMs` is set to the time of the entries of an admitted request.
template <typename Grow>
bool decide(std::span<const Check> checks, std::span<LogState* const> logs, std::span<Verdict> verdicts,
            std::uint64_t now, std::string_view unique, std::uint64_t& loggedMs, Grow&& grow) {
    std::uint64_t reservedAt = now;
    bool admitted = true;
    for (std::size_t i = 0; i < checks.size(); i++) {
        logs[i]->advance(checks[i], now);
        if (deciding::denies(*logs[i], checks[i], now, reservedAt)) {
            admitted = false;
        }
    }
    loggedMs = reservedAt;

    for (std::size_t i = 0; admitted && i < checks.size(); i++) {
        const std::size_t cells = logs[i]->cellsToAdd(now, reservedAt, logs[i]->entriesOf(checks[i], unique));
        if (cells > 0 && !grow(*logs[i], cells)) {
            return false;
        }
    }
    for (std::size_t i = 0; i < checks.size(); i++) {
        const Check& check = checks[i];
        LogState& log = *logs[i];
        const bool isEmpty = log.remaining(check, now) == check.capacity();
        if (admitted) {
            log.add(check, reservedAt, log.entriesOf(check, unique));
        } else if (check.countsAll) {
            deciding::countDenied(log, check, now, unique, grow);
        }
        verdicts[i].remaining = log.remaining(check, now);
        verdicts[i].isFirst = admitted && isEmpty && verdicts[i].remaining < check.capacity();
        verdicts[i].resetMs = log.resetMs(check, now);
        verdicts[i].retryMs = admitted ? 0 : deciding::retryOf(log, check, now);
        verdicts[i].delayMs = admitted ? static_cast<std::int64_t>(reservedAt - now) : 0;
    }
    return true;
}

/// Takes back what a request that was decided at `takenMs` logged at `loggedMs`, if it is still in the log; of a
/// request that is settled, what it cost less. A block that began since `takenMs` ends, too, if the log then has room
/// for such a request: the denial that began it was caused by a request that does not count in the end. The log must
/// suit the check; `now` as for decide().
inline void takeBack(LogState& log, const Check& check, std::uint64_t now, std::string_view unique,
                     std::uint64_t loggedMs, std::uint64_t takenMs) {
    log.advance(check, now);
    const bool isOfDecision = rowOf(check.algorithm).lasts == Lasts::Period;  // see QuotaForm
    const std::int64_t kept = std::max<std::int64_t>(check.settled, 0);
    if (!log.remove(isOfDecision ? takenMs : loggedMs, log.entriesOf(check, unique) - kept)) {
        return;
    }
    const bool isBlocked = log.blocks().until() > now;
    if (isBlocked && log.blocks().since() >= takenMs && log.msUntilRoom(check, now) == 0) {
        log.blocks().undo(now);
    }
}

/// Gives these entries of algorithm=inflight, logged at `loggedMs` (0: not yet), the present time, also beyond the
/// limit. Returns false if there is no memory; they are then in no log. The log must suit the check; `now` as for
/// decide(), `grow` too.
template <typename Grow>
bool renew(LogState& log, const Check& check, std::uint64_t now, std::uint64_t loggedMs, std::int64_t entries,
           Grow&& grow) {
    log.advance(check, now);
    if (loggedMs != 0) {
        log.remove(loggedMs, entries);
    }
    const std::size_t cells = log.cellsToAdd(now, now, entries);
    if (cells > 0 && !grow(log, cells)) {
        return false;
    }
    log.add(check, now, entries);
    return true;
}

/// Adds what a settled request cost more that has ended now, also beyond the limit. Returns false if there is no
/// memory. The log must suit the check; `now` as for decide(), `grow` too.
template <typename Grow>
bool owe(LogState& log, const Check& check, std::uint64_t now, Grow&& grow) {
    log.advance(check, now);
    const std::uint64_t time = log.latest(now);
    const std::size_t cells = log.cellsToAdd(now, time, check.owed());
    if (cells > 0 && !grow(log, cells)) {
        return false;
    }
    log.owe(check, time, check.owed());
    return true;
}

}  // namespace sliding_log
