// Estimates, in nanoseconds, of the time that Redis takes for a call, in which it serves no other client; measured with
// Redis 7.0 on a machine of 2024. They keep calls short. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "limit/verdict.hpp"

namespace sliding_log {

/// The approximate maximum of a call. A request that takes longer because of its cost has a call of its own.
inline constexpr std::int64_t kMostWorkPerCall = 1'000'000;

/// The part that the requests of a group have in common.
inline std::int64_t workOfLogs(std::size_t logs) {
    constexpr std::int64_t kLog = 7'000;  // to read it and to set its time to live
    return kLog * static_cast<std::int64_t>(logs);
}

/// The part of one request, in one log.
inline std::int64_t workOfRequest(const Question& question) {
    constexpr std::int64_t kSlot = 10'000;  // to find one
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
