// Any reply to CLUSTER SLOTS. Input: the length of the pieces, the bytes.

#include "redis/slot_map.hpp"

#include "redis/hash_slots.hpp"
#include "replies.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const std::size_t piece = 1 + input.number<std::uint8_t>();
    forEachReply(input, piece, [](const redisReply& reply) {
        for (const SlotRange& range : readSlotMap(reply)) {
            require(range.first <= range.last && range.last < kHashSlots, "a range consists of hash slots");
            require(range.port >= 1 && range.port <= 65535, "a port is from 1 to 65535");
        }
    });
    return 0;
}
