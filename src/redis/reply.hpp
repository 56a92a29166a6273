// Redis's replies to the scripts, decoded. Pure: values in, values out.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "limit/check.hpp"
#include "redis/store_error.hpp"

namespace sliding_log {

inline std::string_view replyText(const redisReply& reply) {
    return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

/// None if the reply is not an error.
inline StoreError errorIn(const redisReply& reply) {
    return reply.type == REDIS_REPLY_ERROR ? classifyError(replyText(reply)) : StoreError::None;
}

/// The reply to a call, or the reply of one of its batches if that says that the server accepts no writes.
const redisReply& errorOfCall(const redisReply& reply);

/// The error of the whole call: its error reply, or NotMaster if a batch found that the server accepts no writes, so
/// that nothing was logged. None: each batch has a reply of its own.
StoreError checkCall(const redisReply& reply);

/// The error of a call that took back entries of this number of logs, after checkCall() returned None.
StoreError checkTakeBack(const redisReply& reply, std::size_t logs);

/// The time behind the batches in the reply to a plain call, for brief replies to them; nullptr: none.
const redisReply* timeBehind(const redisReply& reply, std::size_t batches);

/// True if this reply to a call of as many batches shows that something was logged: the server accepts writes.
bool hasAdmitted(const redisReply& reply, std::size_t batches);

/// The reply of a script to one batch of requests with the same checks. Each number is compared with the checks, so
/// that no impossible number is used: a number may have been changed on the network. The bounds permit what other nodes
/// wrote with other limits, windows, delays and blocks. The memory is reused for the next batch.
class BatchReply {
  public:
    /// None, or the error; then the following functions must not be called. There must be a check. Without requests, it
    /// is the reply to a call that only asks for permits.
    /// `permits`: the number that each check has asked for; empty: none. `time`: see timeBehind().
    StoreError read(const redisReply& batch, std::size_t requests, std::span<const Check> checks,
                    std::span<const std::uint32_t> permits = {}, const redisReply* time = nullptr);

    /// The number of admitted requests: the first ones.
    std::size_t admitted() const { return admitted_; }

    /// What the log's record says; None if the check has no override.
    const Override& override(std::size_t check) const { return logs_[check].override; }

    /// When the batch was decided, by the clock of the logs.
    std::int64_t nowMs() const { return nowMs_; }

    /// The number of permits that this check has got. They count as remaining in its verdicts.
    std::uint32_t permits(std::size_t check) const {
        return check < permits_.size() ? static_cast<std::uint32_t>(permits_[check]) : 0;
    }

    /// The node has this number of permits besides, which the log counts as used: they are left for an admitted
    /// request.
    void setOwnPermits(std::size_t check, std::uint32_t permits) {
        logs_[check].ownEntries = permits * logs_[check].cost;
    }

    /// What remains of the limit of this check, without its permits.
    std::int64_t remaining(std::size_t check) const {
        return logs_[check].remaining - std::int64_t{permits(check)} * logs_[check].cost;
    }
    std::int64_t resetMs(std::size_t check) const { return logs_[check].resetMs; }

    /// The number of entries that the log of this check had before the batch, at least.
    std::int64_t entriesBefore(std::size_t check) const {
        const Log& log = logs_[check];
        return log.capacity - log.remaining - static_cast<std::int64_t>(admitted_) * log.cost;
    }

    /// When the request at this position (0: the first) was logged, if it was admitted, by the clock of Redis: now, or
    /// its reservation.
    std::uint64_t loggedMs(std::size_t position) const;

    /// Writes the verdicts of the request at this position, one for each check.
    void writeVerdicts(std::size_t position, std::span<Verdict> verdicts) const;

  private:
    struct Log {
        std::int64_t remaining;  // after the last admitted request, with the permits
        std::int64_t resetMs;
        std::int64_t retryMs;
        std::int64_t cost;
        std::int64_t capacity;
        Override override{};
        bool begins = false;          // with the first request of the batch
        std::int64_t ownEntries = 0;  // of permits that the node has besides
    };

    bool readOverride(Log& log, const Check& check, std::int64_t said, std::int64_t untilMs);
    bool arePermitsRight(std::span<const std::uint32_t> asked);
    bool isHeldRight(std::span<const Check> checks) const;
    static bool isRightUnder(const Override& override, const Log& log, const Check& check);
    void findNewLogs(std::span<const Check> checks);
    bool areLogsRight(bool allAdmitted, std::span<const Check> checks) const;
    std::int64_t delayMs(std::size_t position) const;

    /// The number of requests that are admitted and not held: the first ones.
    std::size_t admittedNow() const { return admitted_ - reservedMs_.size(); }

    std::size_t admitted_ = 0;
    std::int64_t nowMs_ = 0;
    std::vector<Log> logs_;                 // one for each check; may be longer
    std::vector<std::int64_t> permits_;     // one for each check that has asked
    std::vector<std::int64_t> reservedMs_;  // ms until the reservations, of the last admitted requests
};

}  // namespace sliding_log
