// Whole numbers as text: parses numbers such as that of `limit=`, and writes numbers without allocating memory.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "limit/bounds.hpp"

namespace sliding_log {

/// A whole number from 0 to kLargestCount, digits only; nullopt for anything else (a sign, blank, point or unit).
inline std::optional<std::int64_t> parseCount(std::string_view text) {
    if (text.empty() || text.front() < '0' || text.front() > '9') {
        return std::nullopt;
    }
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const std::from_chars_result result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end || value > kLargestCount) {
        return std::nullopt;
    }
    return value;
}

/// The decimal digits of one number, on the stack: `DecimalText(42).view()`. A copy has its own digits.
class DecimalText {
  public:
    explicit DecimalText(std::int64_t value)
        : length_(static_cast<std::size_t>(std::to_chars(digits_, digits_ + sizeof digits_, value).ptr - digits_)) {}
    std::string_view view() const { return {digits_, length_}; }

  private:
    char digits_[20];
    std::size_t length_;
};

}  // namespace sliding_log
