// A check to a store as text: equal if and only if the same is asked of the same logs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "limit/check.hpp"

namespace sliding_log {

/// It is written for each request, so it keeps its memory.
struct Signature {
    /// Writes the signature of the checks of one call to the store with this identity. Two generations of workers
    /// share known denials, so it contains everything that a reload may change for the same keys.
    void assign(std::uint64_t store, std::span<const Check> checks);

    friend bool operator==(const Signature& left, const Signature& right) {
        return left.hash == right.hash && left.text == right.text;
    }

    /// True if this is the text of the signature of one check, of the log of this key in that store.
    static bool isOfLog(std::string_view text, std::uint64_t store, std::string_view key);

    /// The hash of the key of a log, whatever is asked of it.
    static std::uint32_t hashOfLog(std::string_view key);

    /// The hash of each log; of the first ones if there are more.
    std::span<const std::uint32_t> logs() const { return std::span(logHashes).first(logCount); }

    static constexpr std::size_t kMostLogs = 4;

    std::string text;
    std::size_t hash = 0;  // of the text
    std::size_t logCount = 0;
    std::array<std::uint32_t, kMostLogs> logHashes{};
};

}  // namespace sliding_log
