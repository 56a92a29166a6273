// A check to a store as text: equal if and only if the same is asked of the same logs. Its identity is the part without
// the costs: what is asked of the logs, whatever the requests cost.
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

    /// The text is the identity then: one of all requests that ask the same but for their costs, and of no others.
    void leaveOutCosts();

    friend bool operator==(const Signature& left, const Signature& right) {
        return left.hash == right.hash && left.identityBytes == right.identityBytes && left.hasAny == right.hasAny &&
               left.text == right.text;
    }

    std::string_view identity() const { return std::string_view(text).substr(0, identityBytes); }

    /// False: each request costs 1.
    bool hasCosts() const { return text.size() > identityBytes; }

    /// True if this is the text of the signature of one check, of the log of this key in that store.
    static bool isOfLog(std::string_view text, std::uint64_t store, std::string_view key);

    /// The hash of the key of a log, whatever is asked of it.
    static std::uint32_t hashOfLog(std::string_view key);

    /// The hash of each log; of the first ones if there are more.
    std::span<const std::uint32_t> logs() const { return std::span(logHashes).first(logCount); }

    static constexpr std::size_t kMostLogs = 4;

    std::string text;      // the identity; behind it the costs, unless all are 1
    std::size_t hash = 0;  // of the text
    std::size_t identityBytes = 0;
    std::size_t identityHash = 0;
    bool hasAny = false;  // it has left out the costs
    std::size_t logCount = 0;
    std::array<std::uint32_t, kMostLogs> logHashes{};
};

}  // namespace sliding_log
