// What decided a limit.
#pragma once

#include <cstddef>
#include <string_view>

namespace sliding_log {

enum class Source {
    Redis,
    Cache,
    Local,
    Prefetch,
    Override,  // a record that allows or denies (override=on)
    Invalid,   // a number of the limit is invalid: no store was asked, and the request is denied
    Error
};

/// As in variables and metrics, by Source.
inline constexpr std::string_view kSourceNames[] = {"redis",    "cache",   "local", "prefetch",
                                                    "override", "invalid", "error"};

constexpr std::string_view nameOf(Source source) {
    return kSourceNames[static_cast<std::size_t>(source)];
}

}  // namespace sliding_log
