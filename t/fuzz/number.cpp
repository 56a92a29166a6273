// Any value of a `limit=` variable, compared with another parser; and conversion to decimal digits and back.

#include "limit/number.hpp"

#include <string>

#include "fuzz.hpp"

namespace sliding_log::fuzz {

namespace {

/// Digits only, leading zeros too, up to kLargestCount.
std::optional<std::int64_t> readByHand(std::string_view text) {
    std::int64_t value = 0;
    for (char c : text) {
        if (c < '0' || c > '9') {
            return std::nullopt;
        }
        value = std::min(value * 10 + (c - '0'), kLargestCount + 1);
    }
    return text.empty() || value > kLargestCount ? std::nullopt : std::optional(value);
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const auto number = input.number<std::int64_t>();
    const std::string_view text = input.rest();
    require(parseCount(text) == readByHand(text), "a count is parsed as by the other parser");
    const DecimalText digits(number);
    require(digits.view() == std::to_string(number), "a number is written in decimal digits");
    require(parseCount(digits.view()) == readByHand(digits.view()), "written digits are parsed to the same number");
    return 0;
}
