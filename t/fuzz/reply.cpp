// Whatever bytes a server answers: read by hiredis into the arena as a connection does, decoded as the store does, and
// written into response fields and known denials. Input: how many requests and logs a group has, how the bytes come
// in pieces, the bytes.

#include "redis/reply.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

#include "limit/fields_text.hpp"
#include "limit/number.hpp"
#include "replies.hpp"
#include "store/denials.hpp"

namespace sliding_log::fuzz {

namespace {

/// What becomes of the verdicts of one request.
void use(std::span<const Verdict> verdicts, bool admitted) {
    std::array<char, fieldMemberCapacity("api")> member;
    bool hasRoom = true;
    for (const Verdict& verdict : verdicts) {
        require(verdict.remaining >= 0 && verdict.resetMs >= 0 && verdict.delayMs >= 0,
                "nothing that remains is negative");
        require(admitted || verdict.delayMs == 0, "who is denied is not held");
        require(verdict.retryMs >= Verdict::kNever, "a wait is a time, or never ends");
        require(retryAfterSeconds(verdict.retryMs) >= 1, "Retry-After is at least 1");
        const char* end = appendLimitMember(member.data(), member.data(), "api", verdict.remaining, verdict.resetMs);
        require(end <= member.data() + member.size(), "a member keeps to its capacity");
        hasRoom = hasRoom && verdict.hasRoom();
    }
    require(hasRoom == admitted, "a request is admitted by all of its logs, or denied by one");
    alignas(64) static std::array<char, 4 * Denials::kSlotBytes> memory;
    if (!admitted) {
        Denials denials(memory.data(), memory.size());
        denials.publish("signature", 1, 1000, verdicts);
        std::vector<Verdict> known(verdicts.size());
        denials.find("signature", 1, 1000, known);
    }
}

void decode(const redisReply& reply, std::size_t requests, std::span<const Question> questions) {
    const std::size_t logs = questions.size();
    const StoreError whole = checkCall(reply);
    require((whole == StoreError::None) == (reply.type != REDIS_REPLY_ERROR) || whole == StoreError::NotMaster,
            "an error is no answer");
    if (reply.type == REDIS_REPLY_ERROR) {
        require(checkGroup(reply, requests, logs) != StoreError::None, "an error is no answer");
        return;
    }
    if (reply.type != REDIS_REPLY_ARRAY) {
        require(checkGroup(reply, requests, logs) == StoreError::Unexpected, "only arrays and errors are answers");
        return;
    }
    std::vector<Verdict> verdicts(logs);
    for (std::size_t i = 0; i < reply.elements; i++) {
        const redisReply& group = *reply.element[i];
        if (checkGroup(group, requests, logs) != StoreError::None) {
            continue;
        }
        const auto admitted = static_cast<std::size_t>(group.element[0]->integer);
        require(admitted <= requests, "no more are admitted than asked");
        for (std::size_t place = 0; place < requests; place++) {
            readVerdicts(group, place, questions, verdicts);
            require(readLoggedMs(group, place, logs) >= static_cast<std::uint64_t>(verdicts.front().delayMs),
                    "a slot is not before the request");
            use(verdicts, place < admitted);
        }
    }
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    fuzz::Input input(data, size);
    const auto first = input.number<std::uint8_t>();
    const std::size_t requests = 1 + first % 8;
    std::vector<Question> questions(1 + input.number<std::uint8_t>() % 4);
    questions.front().cost = first < 128 ? 1 : kLargestCount;
    const std::size_t piece = 1 + input.number<std::uint8_t>();

    fuzz::forEachReply(input, piece, [&](const redisReply& reply) { fuzz::decode(reply, requests, questions); });
    return 0;
}
