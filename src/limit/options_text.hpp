// The options of a check, as the scripts read them; lua/decide.lua has the list.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "limit/check.hpp"

namespace sliding_log {

/// `cost=5 delay=2000`, on the stack; "" if the check has no options.
class OptionsText {
  public:
    explicit OptionsText(const Check& check);
    std::string_view view() const { return {text_.data(), length_}; }

  private:
    void word(std::string_view text);
    void number(std::string_view name, std::int64_t value);

    static constexpr std::size_t kLongest = 8 * 16 + 6 * 20;  // eight words, six numbers

    std::array<char, kLongest> text_;
    std::size_t length_ = 0;
};

}  // namespace sliding_log
