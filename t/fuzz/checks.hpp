// Checks of a batch of requests, read from the input, and conditions for the verdicts of any reply.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "limit/fields_text.hpp"
#include "limit/number.hpp"
#include "node/known_denials.hpp"
#include "redis/reply.hpp"

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

/// One byte: 0, then powers of two up to 366 d.
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

/// The checks of `requests` requests, for at most four logs.
struct Asked {
    explicit Asked(Input& input) : requests(1 + input.number<std::uint8_t>() % 8) {
        for (int logs = 1 + input.number<std::uint8_t>() % 4; logs > 0; logs--) {
            checks.push_back(checkFrom(input));
        }
    }

    std::size_t requests;
    std::vector<Check> checks;
};

/// Uses the verdicts of one request as the module does, and checks them.
inline void requireSound(const Asked& asked, std::span<const Verdict> verdicts) {
    const bool admitted = std::ranges::all_of(verdicts, &Verdict::hasRoom);
    const std::int64_t longestDelay = std::ranges::max(asked.checks, {}, &Check::delayMs).delayMs;
    std::array<char, fieldMemberCapacity("api")> member;
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const Check& check = asked.checks[i];
        const Verdict& verdict = verdicts[i];
        require(verdict.remaining >= 0 && verdict.remaining <= check.capacity(), "remaining is at most the limit");
        require(verdict.delayMs >= 0 && verdict.delayMs <= longestDelay, "a request is held for at most delay=");
        require(admitted || verdict.delayMs == 0, "a denied request is not held");
        require(check.algorithm == Algorithm::Bucket ||
                    (verdict.resetMs >= 0 && verdict.resetMs <= 2 * check.windowMs + check.aheadMs),
                "the reset is within two windows and the delay");
        require(verdict.resetMs >= 0 && verdict.resetMs < 1'000'000'000'000'000,
                "the reset fits into a response field");
        require(check.algorithm == Algorithm::Bucket ||
                    verdict.retryMs <= std::max(2 * check.windowMs + check.aheadMs, kLongestTimeMs),
                "the retry is at most the longest reset or block");
        require((verdict.retryMs == Verdict::kNever) == check.neverHasRoom() && verdict.retryMs >= Verdict::kNever,
                "a request is denied for ever only if the limit never has room");
        const char* end = appendLimitMember(member.data(), member.data(), "api", verdict.remaining, verdict.resetMs);
        require(end <= member.data() + member.size(), "a member fits its capacity");
    }
    alignas(64) static std::array<char, 8 * KnownDenials::kSlotBytes> memory;
    if (!admitted) {
        constexpr std::uint64_t kSentMs = 1000;
        KnownDenials denials(memory.data(), memory.size());
        Signature signature;
        signature.assign(0, asked.checks);
        denials.publish(signature, denials.generation(signature), kSentMs, asked.checks, verdicts);
        std::vector<Verdict> known(verdicts.size());
        denials.find(signature, asked.checks, kSentMs, known);
    }
}

/// Reads a reply of one batch and checks the verdicts of each request. `time`: that behind the batches of a plain call.
inline void checkReply(BatchReply& reply, const redisReply& batch, const Asked& asked, const redisReply* time) {
    if (reply.read(batch, asked.requests, asked.checks, {}, time) != StoreError::None) {
        return;
    }
    require(batch.type == REDIS_REPLY_ARRAY || batch.type == REDIS_REPLY_STRING ||
                (batch.type == REDIS_REPLY_INTEGER && time != nullptr),
            "an accepted reply is an array, the text of a short call, or a number of a plain one");
    std::vector<Verdict> verdicts(asked.checks.size());
    bool mayBeAdmitted = true;
    std::int64_t delayMs = 0;
    for (std::size_t position = 0; position < asked.requests; position++) {
        reply.writeVerdicts(position, verdicts);
        requireSound(asked, verdicts);
        const bool admitted = std::ranges::all_of(verdicts, &Verdict::hasRoom);
        require(mayBeAdmitted || !admitted, "requests are admitted before others are denied");
        require(!admitted || verdicts.front().delayMs >= delayMs, "requests are held in order of arrival");
        require(reply.loggedMs(position) >= static_cast<std::uint64_t>(verdicts.front().delayMs),
                "a reservation is not before its request");
        mayBeAdmitted = admitted;
        delayMs = verdicts.front().delayMs;
    }
}

/// Checks the reply as that of a batch, and each of its elements, as in the reply of a call.
inline void checkReplies(BatchReply& batch, const redisReply& reply, const Asked& asked) {
    checkReply(batch, reply, asked, nullptr);
    const std::size_t elements = reply.type == REDIS_REPLY_ARRAY ? reply.elements : 0;
    const redisReply* time = elements > 0 ? timeBehind(reply, elements - 1) : nullptr;
    for (std::size_t i = 0; i < elements; i++) {
        checkReply(batch, *reply.element[i], asked, time);
    }
}

}  // namespace sliding_log::fuzz
