#include "redis/slot_map.hpp"

#include <string_view>

#include "redis/endpoint.hpp"
#include "redis/hash_slots.hpp"
#include "redis/reply.hpp"

namespace sliding_log {

namespace {

bool isNumber(const redisReply* reply, long long least, long long most) {
    return reply != nullptr && reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

bool isArray(const redisReply* reply, std::size_t least) {
    return reply != nullptr && reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

std::string_view textOf(const redisReply* reply) {
    return reply != nullptr && reply->type == REDIS_REPLY_STRING ? replyText(*reply) : std::string_view();
}

/// Redis 7 adds `[name, value, …]` to a node: its other endpoints.
std::string addressIn(const redisReply& server) {
    const redisReply* extras = server.elements > 3 ? server.element[3] : nullptr;
    for (std::size_t i = 0; isArray(extras, 2) && i + 1 < extras->elements; i += 2) {
        if (textOf(extras->element[i]) == "ip") {
            return std::string(textOf(extras->element[i + 1]));
        }
    }
    return {};
}

}  // namespace

std::vector<SlotRange> readSlotMap(const redisReply& reply) {
    std::vector<SlotRange> ranges;
    for (std::size_t i = 0; isArray(&reply, 1) && i < reply.elements; i++) {
        const redisReply* range = reply.element[i];
        if (!isArray(range, 3) || !isNumber(range->element[0], 0, kHashSlots - 1) ||
            !isNumber(range->element[1], range->element[0]->integer, kHashSlots - 1) ||
            !isArray(range->element[2], 2)) {
            continue;
        }
        const redisReply& master = *range->element[2];
        const std::string_view host = textOf(master.element[0]);
        if (!isNumber(master.element[1], 1, 65535) || !(host.empty() || isHost(host))) {  // "?": no name was announced
            continue;
        }
        ranges.push_back({static_cast<std::uint16_t>(range->element[0]->integer),
                          static_cast<std::uint16_t>(range->element[1]->integer), std::string(host),
                          static_cast<int>(master.element[1]->integer), addressIn(master)});
    }
    return ranges;
}

}  // namespace sliding_log
