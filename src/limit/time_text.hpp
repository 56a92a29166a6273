// A time in nginx's syntax.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace sliding_log {

/// `1d`, `1m30s`, `500ms`, from milliseconds, not negative; 0 is `0s`. On the stack: `TimeText(90'000).view()`.
class TimeText {
  public:
    explicit TimeText(std::int64_t ms) {
        struct Unit {
            std::string_view name;
            std::int64_t ms;
        };
        constexpr Unit kUnits[] = {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
        for (const Unit& unit : kUnits) {
            if (ms >= unit.ms) {
                append(ms / unit.ms, unit.name);
                ms %= unit.ms;
            }
        }
        if (end_ == text_.data()) {
            append(0, "s");
        }
    }
    TimeText(const TimeText&) = delete;
    TimeText& operator=(const TimeText&) = delete;

    std::string_view view() const { return {text_.data(), static_cast<std::size_t>(end_ - text_.data())}; }

  private:
    void append(std::int64_t number, std::string_view unit) {
        end_ = std::to_chars(end_, text_.data() + text_.size(), number).ptr;
        end_ += unit.copy(end_, unit.size());
    }

    std::array<char, 32> text_;  // the longest: 106751991167d7h12m55s807ms
    char* end_ = text_.data();
};

}  // namespace sliding_log
