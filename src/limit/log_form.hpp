// The local form of algorithm=log, compact and sampled: the exact log. Of the last each entry counts for many requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "limit/exact_log.hpp"
#include "limit/local_form.hpp"
#include "limit/wide.hpp"

namespace sliding_log {

class LogForm {
  public:
    /// `place`: a few bytes that are its own as long as it lives.
    explicit LogForm(std::span<std::uint8_t> place) : log_(place.data(), place.size()) {}

    void advance(const Question& question, std::uint64_t now) {
        windowMs_ = question.windowMs;
        log_.prune(now, static_cast<std::uint64_t>(question.windowMs));
        log_.bringBack(now, now + static_cast<std::uint64_t>(question.aheadMs));
    }

    std::int64_t msUntilRoom(const Question& question, std::uint64_t now) const {
        const Wide over = used(question) + question.cost - question.limit;
        if (over <= 0) {
            return 0;
        }
        const auto place = static_cast<std::size_t>(divideUp(over, weight(question))) - 1;
        return msBetween(now, log_.at(place)) + question.windowMs;
    }

    std::int64_t msUntilSlot(const Question&, std::uint64_t now, std::int64_t wait) const {
        return log_.count() == 0 ? wait : std::max(msBetween(now, log_.newest()), wait);
    }

    std::int64_t remaining(const Question& question, std::uint64_t) const {
        return static_cast<std::int64_t>(std::max<Wide>(question.limit - used(question), 0));
    }

    std::int64_t resetMs(const Question& question, std::uint64_t now) const {
        return log_.count() == 0 ? question.windowMs : msBetween(now, log_.oldest()) + question.windowMs;
    }

    std::size_t cellsToAdd(std::uint64_t now, std::uint64_t time, std::int64_t entries) const {
        // one is at hand for entries ahead to be brought back
        const std::size_t wanted =
            log_.cellsToAdd(time, static_cast<std::uint64_t>(entries)) + (time > now || isAhead(now) ? 1 : 0);
        return wanted - std::min(wanted, log_.spares());
    }

    void give(Cell& cell) { log_.give(cell); }

    void add(const Question&, std::uint64_t time, std::int64_t entries) {
        log_.add(time, static_cast<std::uint64_t>(entries));
    }

    std::int64_t entriesOfDenied(const Question& question, std::uint64_t now, std::int64_t entries) const {
        return std::min(entries, static_cast<std::int64_t>(longestWithDenied(question) - log_.countAfter(now)));
    }

    void addDenied(const Question& question, std::uint64_t now, std::int64_t entries) {
        if (question.cap > 0) {
            log_.trim(longestWithDenied(question) - static_cast<std::size_t>(entries));
        }
        log_.add(now, static_cast<std::size_t>(entries));
    }

    bool remove(std::uint64_t time, std::int64_t entries) {
        return log_.remove(time, static_cast<std::size_t>(entries));
    }

    Chain takeSpare(std::uint64_t now) { return log_.spares() == 0 ? Chain() : log_.takeSpare(isAhead(now) ? 2 : 0); }

    Chain takeAll() {
        log_.clear();
        return log_.takeSpare(0);
    }

    std::uint64_t endsAt() const {
        return log_.count() == 0 ? 0 : log_.newest() + static_cast<std::uint64_t>(windowMs_);
    }

  private:
    /// How many requests an entry counts for.
    static std::int64_t weight(const Question& question) {
        return takes(question.algorithm, Parameter::Sample) ? question.sample : 1;
    }

    /// How many entries there may be when denied attempts have been added. The cap is rounded up, else a log at its
    /// cap might have room for ever.
    std::size_t longestWithDenied(const Question& question) const {
        const std::int64_t cap = (question.cap - 1) / weight(question) + 1;
        return std::max(static_cast<std::size_t>(cap), log_.count());
    }

    /// There are entries ahead of now.
    bool isAhead(std::uint64_t now) const { return log_.count() > 0 && log_.newest() > now; }

    Wide used(const Question& question) const { return static_cast<Wide>(log_.count()) * weight(question); }

    ExactLog log_;
    std::int64_t windowMs_ = 0;  // as last asked
};

static_assert(LocalForm<LogForm>);

}  // namespace sliding_log
