#include "redis/reply.hpp"

#include <algorithm>

namespace sliding_log {

namespace {

/// The most that a response field can say (RFC 9651); no count or time of ours comes near it.
constexpr std::int64_t kLargestInteger = 999'999'999'999'999;

bool isInteger(const redisReply* element, std::int64_t least) {
    return element != nullptr && element->type == REDIS_REPLY_INTEGER && element->integer >= least &&
           element->integer <= kLargestInteger;
}

/// Where the times of the held requests begin in the reply of a group.
constexpr std::size_t heldAt(std::size_t logs) {
    return 2 + 3 * logs;
}

/// ms until the slot of the request in that place; 0 for one that is not held.
std::int64_t delayMs(const redisReply& group, std::size_t place, std::size_t logs) {
    const std::size_t held = group.elements - heldAt(logs);
    const auto admitted = static_cast<std::size_t>(group.element[0]->integer);
    return place < admitted && place + held >= admitted ? group.element[group.elements - admitted + place]->integer : 0;
}

}  // namespace

StoreError checkCall(const redisReply& reply) {
    if (reply.type == REDIS_REPLY_ERROR) {
        return classifyError(replyText(reply));
    }
    for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; i++) {
        const redisReply* group = reply.element[i];
        if (group != nullptr && group->type == REDIS_REPLY_ERROR &&
            classifyError(replyText(*group)) == StoreError::NotMaster) {
            return StoreError::NotMaster;
        }
    }
    return StoreError::None;
}

StoreError checkGroup(const redisReply& group, std::size_t requests, std::size_t logs) {
    if (group.type == REDIS_REPLY_ERROR) {
        return classifyError(replyText(group));
    }
    if (group.type != REDIS_REPLY_ARRAY || group.elements < heldAt(logs) || !isInteger(group.element[0], 0) ||
        !isInteger(group.element[1], 0)) {
        return StoreError::Unexpected;
    }
    bool everyoneHasRoom = true;
    for (std::size_t i = 2; i < heldAt(logs); i += 3) {
        if (!isInteger(group.element[i], 0) || !isInteger(group.element[i + 1], 0) ||
            !isInteger(group.element[i + 2], Verdict::kNever)) {
            return StoreError::Unexpected;
        }
        everyoneHasRoom = everyoneHasRoom && group.element[i + 2]->integer == 0;
    }
    std::int64_t latest = 1;
    for (std::size_t i = heldAt(logs); i < group.elements; i++) {
        if (!isInteger(group.element[i], latest)) {
            return StoreError::Unexpected;
        }
        latest = group.element[i]->integer;
    }
    const auto admitted = static_cast<std::size_t>(group.element[0]->integer);
    const bool follows = everyoneHasRoom ? admitted == requests : admitted < requests;
    return follows && group.elements - heldAt(logs) <= admitted ? StoreError::None : StoreError::Unexpected;
}

std::uint64_t readLoggedMs(const redisReply& group, std::size_t place, std::size_t logs) {
    return static_cast<std::uint64_t>(group.element[1]->integer + delayMs(group, place, logs));
}

void readVerdicts(const redisReply& group, std::size_t place, std::span<const Question> questions,
                  std::span<Verdict> verdicts) {
    const std::size_t logs = questions.size();
    const auto held = static_cast<std::int64_t>(group.elements - heldAt(logs));
    const std::int64_t after = group.element[0]->integer - 1 - static_cast<std::int64_t>(place);  // admitted after it
    const std::int64_t delay = delayMs(group, place, logs);
    for (std::size_t i = 0; i < logs; i++) {
        redisReply* const* log = group.element + 2 + 3 * i;
        // a count is no more than kLargestCount, and the requests of a group are few, so this cannot overflow
        const std::int64_t taken = after > held ? (after - held) * questions[i].cost : 0;
        verdicts[i].remaining = std::min<std::int64_t>(log[0]->integer + taken, kLargestInteger);
        verdicts[i].resetMs = log[1]->integer;
        verdicts[i].retryMs = after >= 0 ? 0 : log[2]->integer;
        verdicts[i].delayMs = delay;
    }
}

}  // namespace sliding_log
