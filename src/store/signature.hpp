// What is asked of a store, as one text: the same for those that ask the same of the same logs, and for no others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "limit/verdict.hpp"

namespace sliding_log {

/// It is made for each request, so it keeps its memory.
struct Signature {
    /// Of what one call asks of the store of that identity. Two generations of workers share what they believe, so all
    /// that a reload may change under the same keys is in it.
    void assign(std::uint64_t store, std::span<const Question> questions);

    friend bool operator==(const Signature& left, const Signature& right) {
        return left.hash == right.hash && left.text == right.text;
    }

    /// Of a log's key alone, whatever is asked of it.
    static std::uint32_t hashOfLog(std::string_view key);

    /// That of each log; of the first ones where there are more.
    std::span<const std::uint32_t> logs() const { return std::span(logHashes).first(logCount); }

    static constexpr std::size_t kMostLogs = 4;

    std::string text;
    std::size_t hash = 0;  // of the text
    std::size_t logCount = 0;
    std::array<std::uint32_t, kMostLogs> logHashes{};
};

}  // namespace sliding_log
