// Any bytes of a server, read by hiredis into the arena as in a connection, decoded as in the store, and written into
// response fields and known denials. Input: the requests and checks of a batch, the length of the pieces, the bytes.

#include "redis/reply.hpp"

#include "checks.hpp"
#include "replies.hpp"

namespace sliding_log::fuzz {

namespace {

void decode(const redisReply& reply, const Asked& asked) {
    const StoreError whole = checkCall(reply);
    require((whole == StoreError::None) == (reply.type != REDIS_REPLY_ERROR) || whole == StoreError::NotMaster,
            "an error is not accepted as a reply");
    require(checkTakeBack(reply, 4) == StoreError::Unexpected || (reply.integer >= 0 && reply.integer <= 4),
            "the number of take-backs is at most the requested one");
    BatchReply batch;
    checkReplies(batch, reply, asked);
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    fuzz::Input input(data, size);
    const fuzz::Asked asked(input);
    const std::size_t piece = 1 + input.number<std::uint8_t>();

    fuzz::forEachReply(input, piece, [&](const redisReply& reply) { fuzz::decode(reply, asked); });
    return 0;
}
