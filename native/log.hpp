// A log while a call decides: what is asked of it, and what the algorithm found.
#pragma once

#include <cstddef>
#include <optional>

#include "arguments.hpp"
#include "limit/override.hpp"

namespace sliding_log::native {

/// Fields that all algorithms have; lua/decide.lua says what they mean.
struct Log : Settings {
    RedisModuleString* key = nullptr;
    std::size_t ids = 0;
    double used = 0;
    bool hasFrees = false;
    double frees = 0;  // ms
    bool isBlocked = false;
    double blockedUntil = 0;            // ms
    std::optional<double> blockLength;  // ms; nullopt: none was found
    bool changed = false;
    Override said;     // what its record says
    double asked = 0;  // its limit without the record
};

/// What read() found: an error, or a log that may be blocked.
struct Found {
    const char* error = nullptr;
    bool isBlocked = false;
};

/// The requests from..to of a batch, counted from 1; none if from > to.
struct Requests {
    std::size_t names;  // index of the first request's name in the arguments
    double from;
    double to;

    double count() const { return to - from + 1; }
};

}  // namespace sliding_log::native
