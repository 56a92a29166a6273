// Estimates, in nanoseconds, of the time that Redis takes for a call, in which it serves no other client; measured with
// Redis 7.0 on a machine of 2024. They keep calls short. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "limit/check.hpp"

namespace sliding_log {

/// The approximate maximum of a call. A request that takes longer because of its cost has a call of its own.
inline constexpr std::int64_t kMostWorkPerCall = 1'000'000;

/// To pass the bytes of a request in a walk over a compact log.
inline constexpr std::int64_t kPassed = 15;

/// The part that the requests of a batch have in common, in one log.
inline std::int64_t workOfLog(const Check& check) {
    constexpr std::int64_t kLog = 7'000;  // to read it and to set its time to live
    // a denial looks for the entry that makes room, from the nearer end of a full log; a record may raise the limit
    const std::int64_t missing = check.hasOverride ? check.cost : std::min(check.cost, check.limit - check.cost);
    // a denied request that counts removes as many of the oldest entries
    const std::int64_t removed = check.countsAll ? std::min(check.cost, check.cap) : 0;
    return kLog + rowOf(check.algorithm).work.missing * std::max<std::int64_t>(missing + removed, 0);
}

/// Under compact a block begins, or is over, with the whole log written.
inline std::int64_t workOfBlock(const Check& check) {
    constexpr std::int64_t kEntry = 12;
    return check.algorithm == Algorithm::Compact && check.blockMs > 0 ? kEntry * check.limit : 0;
}

/// The part of finding the first reservation of a call, which those behind it go on from: under compact, a walk over
/// what may be reserved, or over the rest if that is less.
inline std::int64_t workOfReserved(std::span<const Check> checks) {
    double sum = 0;
    for (const Check& check : checks) {
        if (check.algorithm == Algorithm::Compact && check.delayMs > 0) {
            const double limit =
                static_cast<double>(check.limit) / static_cast<double>(std::max<std::int64_t>(check.cost, 1));
            const double reserved = limit * static_cast<double>(check.delayMs) / static_cast<double>(check.windowMs);
            sum += static_cast<double>(kPassed) * std::min(reserved, (limit + reserved) / 2);
        }
    }
    return static_cast<std::int64_t>(std::min(sum, 1e12));
}

/// The part that the requests of a batch have in common.
inline std::int64_t workOfLogs(std::span<const Check> checks) {
    std::int64_t sum = workOfReserved(checks);
    for (const Check& check : checks) {
        sum += workOfLog(check) + workOfBlock(check);
    }
    return sum;
}

/// The part of one request, in one log.
inline std::int64_t workOfRequest(const Check& check) {
    constexpr std::int64_t kReservation = 10'000;  // to find one
    const std::int64_t delayed = check.delayMs > 0 ? kReservation : 0;
    const Work& work = rowOf(check.algorithm).work;
    if (work.together > 0 && check.cost == 1 && !check.named && !check.countsAll) {
        return delayed + work.together;
    }
    const bool isSampled = takes(check.algorithm, Parameter::Sample);
    return delayed + work.request + work.entry * (isSampled ? check.cost / check.sample : check.cost);
}

inline std::int64_t workOfRequest(std::span<const Check> checks) {
    std::int64_t sum = 0;
    for (const Check& check : checks) {
        sum += workOfRequest(check);
    }
    return sum;
}

/// To take a request back out of a log, or to add what it owes, without the walk.
inline std::int64_t workOfTakeBack(const Check& check) {
    constexpr std::int64_t kTakeBack = 30'000;
    constexpr std::int64_t kWriteAnew = 70'000;  // under compact, the numbers near the entry
    const bool leaves = check.owed() == 0;
    return kTakeBack + rowOf(check.algorithm).work.entry * (leaves ? check.cost : check.owed()) +
           (leaves && check.algorithm == Algorithm::Compact ? kWriteAnew : 0);
}

/// True for a request that takes most of a call. Those that ask the same logs wait for each other, whatever they cost.
inline bool isLong(std::span<const Check> checks) {
    return workOfLogs(checks) + workOfRequest(checks) > kMostWorkPerCall / 2;
}

}  // namespace sliding_log
