// The parts of a round that a stage concerns.
#pragma once

#include <span>

#include "request/context.hpp"

namespace sliding_log {

inline std::span<Check> checksOf(const Stage& stage) {
    return {stage.context->round->checks + stage.begin, stage.end - stage.begin};
}

inline std::span<Decision> decisionsOf(const Stage& stage) {
    return {stage.context->round->decisions + stage.begin, stage.end - stage.begin};
}

inline std::span<Verdict> verdictsOf(const Stage& stage) {
    return {stage.context->round->verdicts + stage.begin, stage.end - stage.begin};
}

inline std::span<Permit> permitsOf(const Stage& stage) {
    const Round& round = *stage.context->round;
    return round.permits == nullptr ? std::span<Permit>()
                                    : std::span(round.permits + stage.begin, stage.end - stage.begin);
}

/// nullptr: the local store.
inline const RedisSettings* redisOf(const Stage& stage) {
    return decisionsOf(stage).front().home;
}

}  // namespace sliding_log
