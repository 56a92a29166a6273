// The options of a check, as the scripts read them; lua/decide.lua has the list.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "limit/check.hpp"
#include "limit/option.hpp"

namespace sliding_log {

/// Of what is owed, how long ago the request ended (ms), in as many digits as any time has: the text of a call is told
/// it anew whenever it is sent.
inline constexpr std::string_view kEndedOption = wordOf(Option::Ended);
inline constexpr std::size_t kEndedDigits = 12;

/// `cost=5 delay=2000`, on the stack; "" if the check has no options.
class OptionsText {
  public:
    /// `permits`: the number to ask for, 0 if the check asks for none. `isTold`: the call has the override's record.
    /// `held`: the number of permits that the node has still.
    explicit OptionsText(const Check& check, std::int64_t permits = 0, bool isTold = false, std::int64_t held = 0)
        : OptionsText(check, check.cost, permits, isTold, held) {}

    /// As of a check of cost 1. Not of `sampled`, where the cost says what is drawn of a request.
    static OptionsText withoutCost(const Check& check) {
        return {check, takes(check.algorithm, Parameter::Sample) ? check.cost : 1, 0, false, 0};
    }

    std::string_view view() const { return {text_.data(), length_}; }

  private:
    OptionsText(const Check& check, std::int64_t cost, std::int64_t permits, bool isTold, std::int64_t held);
    void word(Option option);
    void number(Option option, std::int64_t value);
    void times(const BlockTimes& times);
    void append(std::int64_t value);

    static constexpr std::size_t kLongest =
        kOptions.size() * 16 + (9 + BlockTimes::kMost) * 20;  // words, and their numbers

    std::array<char, kLongest> text_;
    std::size_t length_ = 0;
};

}  // namespace sliding_log
