#include "redis/reply.hpp"

#include <algorithm>

namespace sliding_log {

namespace {

bool isInteger(const redisReply* element, std::int64_t least) {
    return element != nullptr && element->type == REDIS_REPLY_INTEGER && element->integer >= least;
}

}  // namespace

StoreError decodeVerdicts(const redisReply& reply, std::span<Verdict> verdicts) {
    if (reply.type == REDIS_REPLY_ERROR) {
        return classifyError(replyText(reply));
    }
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 1 + 3 * verdicts.size()) {
        return StoreError::Unexpected;
    }
    const std::span<redisReply*> elements(reply.element, reply.elements);
    bool everyoneHasRoom = true;
    for (std::size_t i = 1; i < elements.size(); i += 3) {
        if (!isInteger(elements[i], 0) || !isInteger(elements[i + 1], 0) ||
            !isInteger(elements[i + 2], Verdict::kNever)) {
            return StoreError::Unexpected;
        }
        everyoneHasRoom = everyoneHasRoom && elements[i + 2]->integer == 0;
    }
    if (!isInteger(elements[0], 0) || elements[0]->integer != (everyoneHasRoom ? 1 : 0)) {
        return StoreError::Unexpected;
    }
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        verdicts[i] = {elements[3 * i + 1]->integer, elements[3 * i + 2]->integer, elements[3 * i + 3]->integer};
    }
    return StoreError::None;
}

}  // namespace sliding_log
