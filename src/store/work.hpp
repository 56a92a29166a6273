// How long Redis works for what it is asked, and serves nobody else meanwhile: estimates in nanoseconds, from Redis 7.0
// on a machine of 2024, by which calls are kept short. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "limit/verdict.hpp"

namespace sliding_log {

/// Of one call, about. A request that takes longer by itself, by its cost, has a call of its own.
inline constexpr std::int64_t kMostWorkPerCall = 1'000'000;

/// What the requests of a group ask in common.
inline std::int64_t workOfLogs(std::size_t logs) {
    constexpr std::int64_t kLog = 7'000;  // to be read, and its time to live set
    return kLog * static_cast<std::int64_t>(logs);
}

/// One request's part, in one log.
inline std::int64_t workOfRequest(const Question& question) {
    constexpr std::int64_t kSlot = 10'000;  // looked for
    const std::int64_t delayed = question.delayMs > 0 ? kSlot : 0;
    const Work& work = rowOf(question.algorithm).work;
    if (work.together > 0 && question.cost == 1 && !question.named && !question.countsAll) {
        return delayed + work.together;
    }
    const bool isSampled = takes(question.algorithm, Parameter::Sample);
    return delayed + work.request + work.entry * (isSampled ? question.cost / question.sample : question.cost);
}

inline std::int64_t workOfRequest(std::span<const Question> questions) {
    std::int64_t sum = 0;
    for (const Question& question : questions) {
        sum += workOfRequest(question);
    }
    return sum;
}

}  // namespace sliding_log
