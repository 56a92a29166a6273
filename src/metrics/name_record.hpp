// The record of a whole NAME (sliding-log set NAME --all) as this node knows it: one worker reads it for all. It is
// among the counters, where logs cannot displace it, and stays there through a reload. Pure.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "limit/override.hpp"
#include "metrics/counters.hpp"
#include "shared/one_worker.hpp"

namespace sliding_log {

/// Written and read without a lock, by any worker at any time: one that stops or dies in the middle of it leaves a
/// record whose end is not known, until the next reading. Times are of the boot clock, in ms, if not said otherwise.
class NameRecord : public Owned<340> {
  public:
    /// How often it is read, and how long the latest reading counts.
    static constexpr std::uint64_t kReadEveryMs = 900;    // workers look once a second
    static constexpr std::uint64_t kNobodyReadsMs = 300;  // so much later, it is read by nobody else
    static constexpr std::uint64_t kCountsForMs = 60'000;
    static constexpr std::uint64_t kTellEveryMs = 60'000;

    /// What a reading has changed.
    enum class Change : std::uint8_t { None, Begun, Changed, Ended };

    /// Why a record is not in force any more.
    enum class End : std::uint8_t { None, Over, Unread };

    /// True for one worker, which is to read it now.
    bool isDue(std::uint64_t now) { return claimDue(dueMs_, now, kReadEveryMs); }

    /// The same for a worker that leaves it to all others, which may have gone or have another zone.
    bool isOverdue(std::uint64_t now) { return now >= kNobodyReadsMs && isDue(now - kNobodyReadsMs); }

    /// The time of its server, by which it ends, in ms since 1970. `told`: by the server itself; nullopt: it may not be
    /// asked. Then its clock goes on from where any worker has last seen it, or is `wallMs`, of this machine.
    std::int64_t serverMs(std::optional<std::int64_t> told, std::int64_t wallMs, std::uint64_t now) {
        if (told) {
            serverAheadMs_.store(*told - static_cast<std::int64_t>(now), std::memory_order_relaxed);
            return *told;
        }
        const std::int64_t aheadMs = serverAheadMs_.load(std::memory_order_relaxed);
        return aheadMs == 0 ? wallMs : aheadMs + static_cast<std::int64_t>(now);
    }

    /// It was read: What::None if there is none. `serverMs`: see there.
    Change read(const Override& found, std::int64_t serverMs, std::uint64_t now) {
        const bool isOver = found.untilMs > 0 && found.untilMs <= serverMs;
        const Override record = isOver ? Override() : found;
        const std::uint64_t ends =
            record.untilMs > 0 ? now + static_cast<std::uint64_t>(record.untilMs - serverMs) : std::uint64_t{0};
        std::uint64_t before = said_.load(std::memory_order_acquire);
        const Override known = overrideIn(before);
        const bool isKnown = known.what == record.what && known.limit == record.limit &&
                             partOf(before, ends_).has_value() && partOf(before, until_) == asValue(record.untilMs);
        readMs_.store(now, std::memory_order_relaxed);
        if (isKnown) {
            ends_.store(tagged(ends, before), std::memory_order_relaxed);  // the server's clock may have been set
            return Change::None;
        }
        if (!publish(before, record, ends)) {
            return Change::None;  // another worker has read it, too
        }
        return !record.isInForce() ? (known.isInForce() ? Change::Ended : Change::None)
               : known.isInForce() ? Change::Changed
                                   : Change::Begun;
    }

    /// True if nothing was said: no clock has to be read. Else something may be in force.
    bool isNone() const { return !overrideIn(said_.load(std::memory_order_relaxed)).isInForce(); }

    /// What is in force now. Its end is by the clock of Redis.
    Override now(std::uint64_t now) const {
        const std::uint64_t said = said_.load(std::memory_order_acquire);
        Override record = overrideIn(said);
        if (!record.isInForce() || endAt(said, now) != End::None) {
            return {};
        }
        record.untilMs = static_cast<std::int64_t>(partOf(said, until_).value_or(0));
        return record;
    }

    /// How long it is still in force, if it ends; 0: it does not, or nobody knows.
    std::int64_t leftMs(std::uint64_t now) const {
        const std::uint64_t ends = partOf(said_.load(std::memory_order_acquire), ends_).value_or(0);
        return ends > now ? static_cast<std::int64_t>(ends - now) : 0;
    }

    /// To be called about once a second: not None for one worker, if what was in force is not any more, although
    /// nothing else was read.
    End end(std::uint64_t now) {
        std::uint64_t said = said_.load(std::memory_order_acquire);
        const End why = overrideIn(said).isInForce() ? endAt(said, now) : End::None;
        return why != End::None && publish(said, Override(), 0) ? why : End::None;
    }

    /// True for one worker, once a minute: it cannot be read, or is no record.
    bool mayTell(std::uint64_t now) { return sliding_log::mayTell(toldMs_, now, kTellEveryMs); }

    void clear() {
        touchedMs.store(0, std::memory_order_relaxed);
        serverAheadMs_.store(0, std::memory_order_relaxed);
        for (std::atomic<std::uint64_t>* each : {&said_, &until_, &ends_, &readMs_, &dueMs_, &toldMs_}) {
            each->store(0, std::memory_order_relaxed);
        }
    }

  private:
    // A word has a value and, above it, the generation of the record: words of two generations are not of one record.
    static constexpr unsigned kValueBits = 50;
    static constexpr std::uint64_t kValues = std::uint64_t{1} << kValueBits;
    static_assert(static_cast<std::uint64_t>(kLatestTimeMs) < kValues &&
                  static_cast<std::uint64_t>(kLargestCount) * 2 < kValues);

    static std::uint64_t valueOf(std::uint64_t word) { return word % kValues; }
    static std::uint64_t asValue(std::int64_t value) { return static_cast<std::uint64_t>(value); }
    static std::uint64_t tagged(std::uint64_t value, std::uint64_t generation) {
        return std::min(value, kValues - 1) | generation / kValues * kValues;
    }

    /// 0: none. From 1 on: what is said; above these, limits.
    static constexpr std::uint64_t kLimits = 16;
    static std::uint64_t valueOf(const Override& record) {
        return record.what == Override::What::Limit ? kLimits + asValue(record.limit)
                                                    : static_cast<std::uint64_t>(record.what);
    }
    static Override overrideIn(std::uint64_t word) {
        const std::uint64_t value = valueOf(word);
        return value >= kLimits ? Override{Override::What::Limit, static_cast<std::int64_t>(value - kLimits), 0}
                                : Override{static_cast<Override::What>(value), 0, 0};
    }

    /// The other words of a record, if they have been written: nullopt is that its end is not known.
    using Word = std::atomic<std::uint64_t>;
    static std::optional<std::uint64_t> partOf(std::uint64_t said, const Word& other) {
        const std::uint64_t word = other.load(std::memory_order_acquire);
        return word / kValues == said / kValues ? std::optional(valueOf(word)) : std::nullopt;
    }

    End endAt(std::uint64_t said, std::uint64_t now) const {
        const std::uint64_t ends = partOf(said, ends_).value_or(0);
        if (ends != 0 && ends <= now) {
            return End::Over;
        }
        const std::uint64_t read = readMs_.load(std::memory_order_relaxed);
        return now > read && now - read > kCountsForMs ? End::Unread : End::None;
    }

    /// False: another worker has published another one since.
    bool publish(std::uint64_t& before, const Override& record, std::uint64_t ends) {
        const std::uint64_t generation = (before / kValues + 1) * kValues;  // which may wrap
        if (!said_.compare_exchange_strong(before, valueOf(record) | generation, std::memory_order_acq_rel)) {
            return false;
        }
        until_.store(tagged(asValue(record.untilMs), generation), std::memory_order_release);
        ends_.store(tagged(ends, generation), std::memory_order_release);
        return true;
    }

    std::atomic<std::int64_t> serverAheadMs_{0};  // the server's clock, of the boot clock; 0: it was never told
    std::atomic<std::uint64_t> said_{0};
    std::atomic<std::uint64_t> until_{0};  // by the clock of Redis; 0: it does not end
    std::atomic<std::uint64_t> ends_{0};   // 0: it does not
    std::atomic<std::uint64_t> readMs_{0};
    std::atomic<std::uint64_t> dueMs_{0};
    std::atomic<std::uint64_t> toldMs_{0};
};

}  // namespace sliding_log
