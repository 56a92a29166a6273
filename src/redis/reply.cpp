#include "redis/reply.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include "limit/bounds.hpp"
#include "limit/permit_life.hpp"

namespace sliding_log {

namespace {

/// Below all permitted values if it is not an integer.
std::int64_t integerOf(const redisReply& element) {
    return element.type == REDIS_REPLY_INTEGER ? element.integer : INT64_MIN;
}

/// The numbers of a batch, one after the other: those of an array, of the text that replies to a short call, or what a
/// brief reply to a plain call says.
class Numbers {
  public:
    Numbers(const redisReply& reply, std::span<const Check> checks, const redisReply* time) {
        if (reply.type == REDIS_REPLY_STRING) {
            readText(replyText(reply));
        } else if (reply.type == REDIS_REPLY_INTEGER && time != nullptr && checks.size() == 1) {
            const redisReply* const log = &reply;
            readAdmitted({&log, 1}, checks, *time);
        } else if (reply.type == REDIS_REPLY_ARRAY) {
            rest_ = {reply.element, reply.elements};
            if (time != nullptr && rest_.size() == checks.size() && rest_.size() == kMostLogs) {
                readAdmitted(std::exchange(rest_, {}), checks, *time);
            }
        }
    }

    /// There is one; below all that is allowed where it is no integer.
    std::int64_t next() {
        if (toldNext_ < toldEnd_) {
            return told_[toldNext_++];
        }
        const std::int64_t number = integerOf(*rest_.front());
        rest_ = rest_.subspan(1);
        return number;
    }
    std::size_t left() const { return rest_.size() + toldEnd_ - toldNext_; }

  private:
    static constexpr std::size_t kMostLogs = 2;  // of a request in a plain call
    static constexpr std::size_t kOfText = 5;    // admitted, now, remaining, reset, retry

    /// None if the text is another one.
    void readText(std::string_view text) {
        const char* at = text.data();
        const char* end = at + text.size();
        for (std::size_t i = 0; i < kOfText; i++) {
            const auto [stop, error] = std::from_chars(at, end, told_[i]);
            if (error != std::errc() || (i + 1 == kOfText ? stop != end : stop == end || *stop != ' ')) {
                return;
            }
            at = stop + 1;
        }
        toldEnd_ = kOfText;
    }

    /// A brief reply has one number for each log, see lua/plain_log.lua. No record is in force.
    void readAdmitted(std::span<const redisReply* const> logs, std::span<const Check> checks, const redisReply& time) {
        const auto tell = [this](std::int64_t number) { told_[toldEnd_++] = number; };
        tell(1);
        tell(integerOf(time));
        for (std::size_t i = 0; i < logs.size(); i++) {
            const std::int64_t unit = 2 * checks[i].windowMs;
            const std::int64_t number = integerOf(*logs[i]);
            tell(number / unit);
            tell(number % unit);
            tell(0);
        }
        for (const Check& check : checks) {
            if (check.hasOverride) {
                tell(Override().said());
                tell(0);
            }
        }
    }

    std::span<redisReply* const> rest_;
    std::array<std::int64_t, 2 + 5 * kMostLogs> told_;
    std::size_t toldNext_ = 0;
    std::size_t toldEnd_ = 0;
};

bool isBetween(std::int64_t number, std::int64_t least, std::int64_t most) {
    return number >= least && number <= most;
}

/// The longest possible time until more of the limit is available, whichever node wrote the log. `owes`: the log may
/// have admitted more than the limit.
std::int64_t longestReset(const Check& check, bool owes) {
    switch (rowOf(check.algorithm).lasts) {
        case Lasts::Window:
        case Lasts::Lease:
            // entries further ahead are moved to now; other nodes may have permits
            return check.windowMs + std::max(check.aheadMs, permitLifeMs(check.windowMs));
        case Lasts::NextWindow:
            return 2 * check.windowMs + check.aheadMs;  // the next window still weighs the whole previous one
        case Lasts::Period:
            return 2 * check.windowMs;  // the next period may have begun by a clock that was ahead
        case Lasts::Refill:
            // any burst may have been used; a token takes no longer than a window; large numbers are rounded
            return owes ? kLongestWaitMs : 2 * check.windowMs + check.aheadMs;
    }
    __builtin_unreachable();
}

/// A block may have been begun by another location or node.
std::int64_t longestRetry(const Check& check) {
    return std::max(longestReset(check, true), kLongestTimeMs);
}

}  // namespace

const redisReply& errorOfCall(const redisReply& reply) {
    for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; i++) {
        const redisReply* batch = reply.element[i];
        if (batch != nullptr && errorIn(*batch) == StoreError::NotMaster) {
            return *batch;
        }
    }
    return reply;
}

StoreError checkCall(const redisReply& reply) {
    return errorIn(errorOfCall(reply));
}

const redisReply* timeBehind(const redisReply& reply, std::size_t batches) {
    const bool isThere = reply.type == REDIS_REPLY_ARRAY && reply.elements == batches + 1 &&
                         reply.element[batches]->type == REDIS_REPLY_INTEGER;
    return isThere ? reply.element[batches] : nullptr;
}

bool hasAdmitted(const redisReply& reply, std::size_t batches) {
    if (reply.type == REDIS_REPLY_STRING) {
        return replyText(reply).starts_with("1 ");  // of a short call
    }
    const std::size_t elements = reply.type == REDIS_REPLY_ARRAY ? std::min(reply.elements, batches) : 0;
    return std::any_of(reply.element, reply.element + elements, [](const redisReply* batch) {
        return batch->type == REDIS_REPLY_INTEGER ||
               (batch->type == REDIS_REPLY_ARRAY && batch->elements > 0 && integerOf(*batch->element[0]) > 0);
    });
}

StoreError checkTakeBack(const redisReply& reply, std::size_t logs) {
    return isBetween(integerOf(reply), 0, static_cast<std::int64_t>(logs)) ? StoreError::None : StoreError::Unexpected;
}

StoreError BatchReply::read(const redisReply& batch, std::size_t requests, std::span<const Check> checks,
                            std::span<const std::uint32_t> permits, const redisReply* time) {
    if (batch.type == REDIS_REPLY_ERROR) {
        return errorIn(batch);
    }
    constexpr std::size_t kHead = 2;  // admitted, now
    const bool hasOverrides = std::ranges::any_of(checks, &Check::hasOverride);
    const std::size_t ofLog = hasOverrides ? 5 : 3;  // remaining, reset, retry; what its record says, and its end
    Numbers numbers(batch, checks, time);
    if (numbers.left() < kHead + ofLog * checks.size()) {
        return StoreError::Unexpected;
    }
    const std::int64_t admitted = numbers.next();
    nowMs_ = numbers.next();
    if (!isBetween(admitted, 0, static_cast<std::int64_t>(requests)) || !isBetween(nowMs_, 0, kLatestTimeMs)) {
        return StoreError::Unexpected;
    }
    if (logs_.size() < checks.size()) {
        logs_.resize(checks.size());
    }
    for (std::size_t i = 0; i < checks.size(); i++) {
        // in this order: a list in braces is evaluated from the left
        logs_[i] = {numbers.next(), numbers.next(), numbers.next(), checks[i].cost, checks[i].capacity(), {}, false};
    }
    for (std::size_t i = 0; hasOverrides && i < checks.size(); i++) {
        const std::int64_t said = numbers.next();
        if (!readOverride(logs_[i], checks[i], said, numbers.next())) {
            return StoreError::Unexpected;
        }
    }
    admitted_ = static_cast<std::size_t>(admitted);
    reservedMs_.clear();
    permits_.clear();
    const bool hasPermits = !permits.empty() && admitted_ == requests;
    if (hasPermits ? numbers.left() != checks.size() : numbers.left() > admitted_) {
        return StoreError::Unexpected;
    }
    while (numbers.left() > 0) {
        (hasPermits ? permits_ : reservedMs_).push_back(numbers.next());
    }
    if (hasPermits && !arePermitsRight(permits)) {
        return StoreError::Unexpected;
    }
    const bool isRight = isHeldRight(checks) && areLogsRight(admitted_ == requests, checks);
    if (!isRight) {
        return StoreError::Unexpected;
    }
    findNewLogs(checks);
    return StoreError::None;
}

/// A log whose first requests of a batch are logged together with some that are held may be missed.
void BatchReply::findNewLogs(std::span<const Check> checks) {
    const auto others = static_cast<std::int64_t>(std::max<std::size_t>(admittedNow(), 1) - 1);
    for (std::size_t i = 0; i < checks.size(); i++) {
        Log& log = logs_[i];
        const bool isSampled = takes(checks[i].algorithm, Parameter::Sample);
        const std::int64_t remaining = log.remaining + (isSampled ? 0 : others * log.cost);
        log.begins =
            admitted_ > 0 && !log.override.decides() && checks[i].isFirst(log.capacity, remaining, log.resetMs);
    }
}

/// False if a record cannot say this.
bool BatchReply::readOverride(Log& log, const Check& check, std::int64_t said, std::int64_t untilMs) {
    if (!Override::read(said, untilMs, log.override) ||
        (!check.hasOverride && log.override.what != Override::What::None)) {
        return false;
    }
    if (log.override.what == Override::What::Limit) {
        log.capacity = check.capacityUnder(log.override);
    }
    return true;
}

/// No more than asked for, and than a tenth of what remains with them. They are added to what remains.
bool BatchReply::arePermitsRight(std::span<const std::uint32_t> asked) {
    for (std::size_t i = 0; i < permits_.size(); i++) {
        Log& log = logs_[i];
        if (!isBetween(permits_[i], 0, asked[i]) || !isBetween(log.remaining, 0, log.capacity)) {
            return false;
        }
        const std::int64_t entries = permits_[i] * log.cost;  // at most what a call may add
        log.remaining += entries;
        if (entries > log.remaining / 10) {
            return false;
        }
    }
    return true;
}

/// Reservations are made in the order of arrival, by requests that may wait that long.
bool BatchReply::isHeldRight(std::span<const Check> checks) const {
    if (reservedMs_.empty()) {
        return true;
    }
    const std::int64_t longest = std::ranges::max(checks, {}, &Check::delayMs).delayMs;
    return reservedMs_.front() >= 1 && reservedMs_.back() <= longest && std::ranges::is_sorted(reservedMs_);
}

/// A log that its record decides: allowed, it has the whole limit; denied, nothing until the record ends, if it does.
bool BatchReply::isRightUnder(const Override& override, const Log& log, const Check& check) {
    const bool isDenied = override.what == Override::What::Deny;
    const bool isRetryRight = !isDenied              ? log.retryMs == 0
                              : override.untilMs > 0 ? isBetween(log.retryMs, 1, kLongestTimeMs)
                                                     : log.retryMs == Verdict::kNever;
    return isRetryRight && log.remaining == (isDenied ? 0 : check.capacity()) &&
           isBetween(log.resetMs, 1, std::max(kLongestTimeMs, check.windowMs));
}

/// Admissions must match the logs: all logs have room, or at least one has none.
bool BatchReply::areLogsRight(bool allAdmitted, std::span<const Check> checks) const {
    const auto requests = static_cast<std::int64_t>(admittedNow());
    const Log* log = logs_.data();
    bool allHaveRoom = true;
    for (const Check& check : checks) {
        const Override& override = log->override;
        if (override.decides()) {
            if (!isRightUnder(override, *log, check)) {
                return false;
            }
            allHaveRoom = allHaveRoom && log->retryMs == 0;
            log++;
            continue;
        }
        // which requests a sampled log holds is not known here; costs are no more than kLargestCount, and the requests
        // of a batch are few, so this cannot overflow
        const bool isSampled = takes(check.algorithm, Parameter::Sample);
        const std::int64_t taken = isSampled ? 0 : requests * check.cost;
        const bool owes = !allAdmitted && log->remaining == 0;
        if (!isBetween(log->remaining, 0, log->capacity - taken) ||
            !isBetween(log->resetMs, 0, longestReset(check, owes))) {
            return false;
        }
        if (check.neverHasRoom(override)) {
            if (admitted_ > 0 || log->retryMs != Verdict::kNever) {
                return false;
            }
        } else if (log->retryMs != 0 && !isBetween(log->retryMs, 1, longestRetry(check))) {
            return false;
        }
        allHaveRoom = allHaveRoom && log->retryMs == 0;
        log++;
    }
    return allHaveRoom == allAdmitted;
}

/// ms until the reservation of the request at this position; 0 if it is not held.
std::int64_t BatchReply::delayMs(std::size_t position) const {
    return position >= admittedNow() && position < admitted_ ? reservedMs_[position - admittedNow()] : 0;
}

std::uint64_t BatchReply::loggedMs(std::size_t position) const {
    return static_cast<std::uint64_t>(nowMs_ + delayMs(position));
}

void BatchReply::writeVerdicts(std::size_t position, std::span<Verdict> verdicts) const {
    const auto after = static_cast<std::int64_t>(position < admittedNow() ? admittedNow() - 1 - position : 0);
    const bool isAdmitted = position < admitted_;
    const std::int64_t delay = delayMs(position);
    const Log* log = logs_.data();
    for (Verdict& verdict : verdicts) {
        const std::int64_t used = log->override.decides() ? 0 : after * log->cost + (isAdmitted ? log->ownEntries : 0);
        verdict.remaining = std::min(log->remaining + used, log->capacity);
        verdict.override = log->override;
        verdict.resetMs = log->resetMs;
        verdict.retryMs = isAdmitted ? 0 : log->retryMs;
        verdict.delayMs = delay;
        verdict.isFirst = log->begins && position == 0;
        log++;
    }
}

}  // namespace sliding_log
