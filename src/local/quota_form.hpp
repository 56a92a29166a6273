// The local form of algorithm=quota: one count, of the latest period.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "limit/calendar.hpp"
#include "local/local_form.hpp"

namespace sliding_log {

/// A request counts in the period in which it is decided, also if another limit holds it into the next one.
class QuotaForm {
  public:
    /// If the clock was set back, the later period, which has the count, goes on; a count that is further ahead becomes
    /// one of now. A count of periods of another kind counts if it began in the current one.
    void advance(const Check& check, std::uint64_t now) {
        windowMs_ = check.windowMs;
        utcAheadMs_ = check.utcAheadMs;
        nowUtc_ = utc(now);
        const Period current = periodAt(nowUtc_, windowMs_);
        period_ = current;
        if (used_ == 0) {
            return;
        }
        const Period counted = periodAt(beganUtc_, windowMs_);
        if (counted.begin < current.begin) {
            used_ = 0;
        } else if (counted.begin == current.end) {
            period_ = counted;
        } else if (counted.begin > current.end) {
            beganUtc_ = nowUtc_;
        }
    }

    std::int64_t msUntilRoom(const Check& check, std::uint64_t) const {
        return used_ + check.cost <= check.limit ? 0 : msUntilEnd();
    }

    std::int64_t msUntilReservation(const Check&, std::uint64_t, std::int64_t wait) const { return wait; }

    std::int64_t remaining(const Check& check, std::uint64_t) const {
        return std::max<std::int64_t>(check.limit - used_, 0);
    }

    std::int64_t resetMs(const Check&, std::uint64_t) const { return msUntilEnd(); }

    std::size_t cellsToAdd(std::uint64_t, std::uint64_t, std::int64_t) const { return 0; }

    void give(Cell&) {}

    void add(const Check&, std::uint64_t, std::int64_t entries) {
        if (used_ == 0) {
            beganUtc_ = std::max(nowUtc_, period_.begin);
        }
        used_ += entries;
    }

    std::int64_t entriesOfDenied(const Check&, std::uint64_t, std::int64_t entries) const { return entries; }

    void addDenied(const Check& check, std::uint64_t now, std::int64_t entries) { add(check, now, entries); }

    /// `time`: of the decision. A count that began later holds others alone.
    bool remove(std::uint64_t time, std::int64_t entries) {
        const std::int64_t taken = utc(time);
        if (used_ == 0 || taken < beganUtc_ || periodAt(taken, windowMs_) != period_) {
            return false;
        }
        used_ -= std::min(entries, used_);
        return true;
    }

    std::uint64_t latest(std::uint64_t now) const { return now; }

    void owe(const Check& check, std::uint64_t time, std::int64_t entries) {
        add(check, time, std::min(entries, std::max<std::int64_t>(kMost - used_, 0)));
    }

    Chain takeSpare(std::uint64_t) { return {}; }

    Chain takeAll() { return {}; }

    std::uint64_t endsAt() const { return used_ == 0 ? 0 : static_cast<std::uint64_t>(period_.end - utcAheadMs_); }

  private:
    static constexpr std::int64_t kMost = 1'000'000'000'000'000;  // with what is owed

    std::int64_t utc(std::uint64_t time) const { return static_cast<std::int64_t>(time) + utcAheadMs_; }

    std::int64_t msUntilEnd() const { return period_.end - nowUtc_; }

    Period period_ = {0, 0};
    std::int64_t used_ = 0;
    std::int64_t beganUtc_ = 0;  // when the first request was counted
    std::int64_t nowUtc_ = 0;    // these three: of the latest check
    std::int64_t windowMs_ = 0;
    std::int64_t utcAheadMs_ = 0;
};

static_assert(LocalForm<QuotaForm>);

}  // namespace sliding_log
