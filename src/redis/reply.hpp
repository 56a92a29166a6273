// Redis's replies to the scripts, decoded. Pure: values in, values out.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "limit/verdict.hpp"
#include "redis/store_error.hpp"

namespace sliding_log {

inline std::string_view replyText(const redisReply& reply) {
    return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

/// None for a reply that is no error.
inline StoreError errorIn(const redisReply& reply) {
    return reply.type == REDIS_REPLY_ERROR ? classifyError(replyText(reply)) : StoreError::None;
}

/// The reply to a call, or of its groups' replies the one that tells that the server takes no writes.
const redisReply& errorOfCall(const redisReply& reply);

/// What keeps the whole call from being decided: its error reply, or NotMaster where a group met a server that takes no
/// writes, so that nothing was logged. None: each group has an answer of its own.
StoreError checkCall(const redisReply& reply);

/// Of a call that took back what was in so many logs, and that checkCall() found to be None.
StoreError checkTakeBack(const redisReply& reply, std::size_t logs);

/// True when that reply to a call tells of something that was logged: the server takes writes.
bool hasAdmitted(const redisReply& reply);

/// What a script says of one group of requests that ask the same. It is read once, and each of its numbers is held
/// against the questions, so that nothing behind it meets one that cannot be: on the way from the server a number may
/// become any other. Bounds allow for what other nodes wrote whose limits, windows, delays and blocks are others.
/// The memory is used again for the next group.
class GroupReply {
  public:
    /// None; or why there is no answer, and what follows is not to be asked. There is a question, and a request.
    StoreError read(const redisReply& group, std::size_t requests, std::span<const Question> questions);

    /// How many requests are admitted: the first ones.
    std::size_t admitted() const { return admitted_; }

    /// When the group was decided, by the clock that the logs go by.
    std::int64_t nowMs() const { return nowMs_; }

    /// When the request in that place (0: the first) was logged, by Redis's clock: now, or the slot of one that is
    /// held; where it was admitted.
    std::uint64_t loggedMs(std::size_t place) const;

    /// The answers to the request in that place: as many as there were questions.
    void writeVerdicts(std::size_t place, std::span<Verdict> verdicts) const;

  private:
    struct Log {
        std::int64_t remaining;  // after the last request that was admitted
        std::int64_t resetMs;
        std::int64_t retryMs;
        std::int64_t cost;
        std::int64_t capacity;
    };

    bool isHeldRight(std::span<const Question> questions) const;
    bool areLogsRight(bool allAdmitted, std::span<const Question> questions) const;
    std::int64_t delayMs(std::size_t place) const;

    /// How many are admitted and not held: the first ones.
    std::size_t admittedNow() const { return admitted_ - held_.size(); }

    std::size_t admitted_ = 0;
    std::int64_t nowMs_ = 0;
    std::vector<Log> logs_;           // of each question, and more of groups before
    std::vector<std::int64_t> held_;  // ms until the slots of the last ones admitted
};

}  // namespace sliding_log
