#include "redis/reply.hpp"

namespace sliding_log {

namespace {

/// The most that a response field can say (RFC 9651); no count or time of ours comes near it.
constexpr std::int64_t kLargestInteger = 999'999'999'999'999;

bool isInteger(const redisReply* element, std::int64_t least) {
    return element != nullptr && element->type == REDIS_REPLY_INTEGER && element->integer >= least &&
           element->integer <= kLargestInteger;
}

/// Entries without names are taken back by their time: such a group ends with it.
bool tellsTime(Algorithm algorithm) {
    return algorithm == Algorithm::Compact;
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

StoreError checkGroup(const redisReply& group, std::size_t requests, std::size_t logs, Algorithm algorithm) {
    if (group.type == REDIS_REPLY_ERROR) {
        return classifyError(replyText(group));
    }
    const std::size_t elements = 1 + 3 * logs + (tellsTime(algorithm) ? 1 : 0);
    if (group.type != REDIS_REPLY_ARRAY || group.elements != elements || !isInteger(group.element[0], 0) ||
        (tellsTime(algorithm) && !isInteger(group.element[elements - 1], 0))) {
        return StoreError::Unexpected;
    }
    bool everyoneHasRoom = true;
    for (std::size_t i = 1; i < 1 + 3 * logs; i += 3) {
        if (!isInteger(group.element[i], 0) || !isInteger(group.element[i + 1], 0) ||
            !isInteger(group.element[i + 2], Verdict::kNever)) {
            return StoreError::Unexpected;
        }
        everyoneHasRoom = everyoneHasRoom && group.element[i + 2]->integer == 0;
    }
    const auto admitted = static_cast<std::size_t>(group.element[0]->integer);
    const bool follows = everyoneHasRoom ? admitted == requests : admitted < requests;
    return follows ? StoreError::None : StoreError::Unexpected;
}

std::uint64_t readLoggedMs(const redisReply& group, Algorithm algorithm) {
    return tellsTime(algorithm) ? static_cast<std::uint64_t>(group.element[group.elements - 1]->integer) : 0;
}

void readVerdicts(const redisReply& group, std::size_t place, std::span<Verdict> verdicts) {
    const std::int64_t admitted = group.element[0]->integer;
    const std::int64_t after = admitted - 1 - static_cast<std::int64_t>(place);  // admitted after this one
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        redisReply* const* log = group.element + 1 + 3 * i;
        verdicts[i].remaining = log[0]->integer + (after > 0 ? after : 0);
        verdicts[i].resetMs = log[1]->integer;
        verdicts[i].retryMs = after >= 0 ? 0 : log[2]->integer;
    }
}

}  // namespace sliding_log
