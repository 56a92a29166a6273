// Whatever bytes a server answers: read by hiredis into the arena as a connection does, decoded as the store does, and
// written into response fields and known denials. Input: how many requests and logs a batch has and what they ask, how
// the bytes come in pieces, the bytes.

#include "redis/reply.hpp"

#include "checks.hpp"
#include "replies.hpp"

namespace sliding_log::fuzz {

namespace {

void decode(const redisReply& reply, const Asked& asked) {
    const StoreError whole = checkCall(reply);
    require((whole == StoreError::None) == (reply.type != REDIS_REPLY_ERROR) || whole == StoreError::NotMaster,
            "an error is no answer");
    require(checkTakeBack(reply, 4) == StoreError::Unexpected || (reply.integer >= 0 && reply.integer <= 4),
            "no more is taken back than was asked for");
    BatchReply batch;
    answerAll(batch, reply, asked);
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
