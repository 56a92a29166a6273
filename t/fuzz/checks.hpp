// Checks of a batch of requests, drawn from the input, and the conditions that its answers must meet for any reply.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "limit/fields_text.hpp"
#include "limit/number.hpp"
#include "redis/reply.hpp"
#include "store/known_denials.hpp"

namespace sliding_log::fuzz {

/// One byte: small numbers as they are, then powers of ten.
inline std::int64_t countFrom(Input& input) {
    const auto byte = input.number<std::uint8_t>();
    std::int64_t count = byte < 240 ? byte : 1000;
    for (int power = 240; power < byte && count < kLargestCount; power++) {
        count *= 10;
    }
    return count;
}

/// One byte: 0, then powers of two, which end with 366 d.
inline std::int64_t timeFrom(Input& input) {
    const unsigned power = input.number<std::uint8_t>() % 37;
    return power == 0 ? 0 : std::min<std::int64_t>(std::int64_t{1} << (power - 1), kLongestTimeMs);
}

/// Ten bytes: every parameter of a script.
inline Check checkFrom(Input& input) {
    Check check;
    const auto kind = input.number<std::uint8_t>();
    check.algorithm = kAlgorithms[kind % kAlgorithms.size()].algorithm;
    check.countsAll = kind >= 128;
    check.limit = countFrom(input);
    check.cost = countFrom(input);
    check.burst = countFrom(input);
    check.windowMs = std::max<std::int64_t>(timeFrom(input), 1);
    check.delayMs = timeFrom(input);
    check.aheadMs = std::max(timeFrom(input), check.delayMs);
    check.blockMs = timeFrom(input);
    check.sample = 1 + countFrom(input) % 1'000'000;
    check.cap = check.limit + countFrom(input);
    check.ttlMs = check.windowMs + check.aheadMs;
    return check;
}

/// The checks of `requests` requests: at most four logs.
struct Asked {
    explicit Asked(Input& input) : requests(1 + input.number<std::uint8_t>() % 8) {
        for (int logs = 1 + input.number<std::uint8_t>() % 4; logs > 0; logs--) {
            checks.push_back(checkFrom(input));
        }
    }

    std::size_t requests;
    std::vector<Check> checks;
};

/// The use of the verdicts of one request.
inline void requireSound(const Asked& asked, std::span<const Verdict> verdicts) {
    const bool admitted = std::ranges::all_of(verdicts, &Verdict::hasRoom);
    const std::int64_t longestDelay = std::ranges::max(asked.checks, {}, &Check::delayMs).delayMs;
    std::array<char, fieldMemberCapacity("api")> member;
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const Check& check = asked.checks[i];
        const Verdict& verdict = verdicts[i];
        require(verdict.remaining >= 0 && verdict.remaining <= check.capacity(), "what remains is of the limit");
        require(verdict.delayMs >= 0 && verdict.delayMs <= longestDelay, "nobody is held longer than delay=");
        require(admitted || verdict.delayMs == 0, "who is denied is not held");
        require(check.algorithm == Algorithm::Bucket ||
                    (verdict.resetMs >= 0 && verdict.resetMs <= 2 * check.windowMs + check.aheadMs),
                "no entry counts longer than windows reach");
        require(verdict.resetMs >= 0 && verdict.resetMs < 1'000'000'000'000'000, "a field can tell it");
        require(check.algorithm == Algorithm::Bucket ||
                    verdict.retryMs <= std::max(2 * check.windowMs + check.aheadMs, kLongestTimeMs),
                "nobody waits longer than for that, or for a block");
        require((verdict.retryMs == Verdict::kNever) == check.neverHasRoom() && verdict.retryMs >= Verdict::kNever,
                "never is for those whom nothing can let in");
        const char* end = appendLimitMember(member.data(), member.data(), "api", verdict.remaining, verdict.resetMs);
        require(end <= member.data() + member.size(), "a member keeps to its capacity");
    }
    alignas(64) static std::array<char, 8 * KnownDenials::kSlotBytes> memory;
    if (!admitted) {
        constexpr std::uint64_t kSentMs = 1000;
        KnownDenials denials(memory.data(), memory.size());
        Signature signature;
        signature.assign(0, asked.checks);
        denials.publish(signature, denials.generation(signature), kSentMs, asked.checks, verdicts);
        std::vector<Verdict> known(verdicts.size());
        denials.find(signature, kSentMs, known);
    }
}

/// Reads a possible reply of one batch, and checks the verdicts of each request.
inline void answer(BatchReply& reply, const redisReply& batch, const Asked& asked) {
    if (reply.read(batch, asked.requests, asked.checks) != StoreError::None) {
        return;
    }
    require(batch.type == REDIS_REPLY_ARRAY, "only an array is an answer");
    std::vector<Verdict> verdicts(asked.checks.size());
    bool mayBeAdmitted = true;
    std::int64_t delayMs = 0;
    for (std::size_t position = 0; position < asked.requests; position++) {
        reply.writeVerdicts(position, verdicts);
        requireSound(asked, verdicts);
        const bool admitted = std::ranges::all_of(verdicts, &Verdict::hasRoom);
        require(mayBeAdmitted || !admitted, "the first ones are admitted");
        require(!admitted || verdicts.front().delayMs >= delayMs, "they are held in their order");
        require(reply.loggedMs(position) >= static_cast<std::uint64_t>(verdicts.front().delayMs),
                "a slot is not before the request");
        mayBeAdmitted = admitted;
        delayMs = verdicts.front().delayMs;
    }
}

/// The reply of a call, each element of which is a batch's; or a batch's itself, which is none of a call.
inline void answerAll(BatchReply& batch, const redisReply& reply, const Asked& asked) {
    answer(batch, reply, asked);
    for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; i++) {
        answer(batch, *reply.element[i], asked);
    }
}

}  // namespace sliding_log::fuzz
