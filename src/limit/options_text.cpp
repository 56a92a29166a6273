#include "limit/options_text.hpp"

#include "limit/number.hpp"

namespace sliding_log {

OptionsText::OptionsText(const Check& check, std::int64_t cost, std::int64_t permits, bool isTold) {
    if (check.named) {
        word("ids");
    }
    if (cost != 1) {
        number("cost=", cost);
    }
    if (check.countsAll) {
        word("count=all");
    }
    if (check.delayMs != 0) {
        number("delay=", check.delayMs);
    }
    if (check.aheadMs != 0) {
        number("ahead=", check.aheadMs);
    }
    if (check.blockMs != 0) {
        number("block=", check.blockMs);
    }
    if (check.blockTimes.escalates()) {
        times(check.blockTimes);
    } else if (check.escalates) {
        word("escalates");
    }
    if (check.isSettled()) {
        number("settle=", check.settled);
    }
    if (check.owed() > 0) {
        word(kEndedOption);
        length_ += std::string_view("000000000000").copy(text_.data() + length_, kEndedDigits);
    }
    if (permits != 0) {
        number("permits=", permits);
    }
    if (check.hasOverride) {
        word("override");
    }
    if (isTold) {
        word("told");
    }
    if (takes(check.algorithm, Parameter::Burst)) {
        number("burst=", check.burst);
    }
    if (takes(check.algorithm, Parameter::Sample)) {
        number("sample=", check.sample);
    }
}

void OptionsText::word(std::string_view text) {
    if (length_ > 0) {
        text_[length_++] = ' ';
    }
    length_ += text.copy(text_.data() + length_, text.size());
}

void OptionsText::number(std::string_view name, std::int64_t value) {
    word(name);
    append(value);
}

/// All but the first, which is there.
void OptionsText::times(const BlockTimes& times) {
    for (std::uint8_t step = 2; step <= times.count; step++) {
        text_[length_++] = ',';
        append(times.at(step));
    }
}

void OptionsText::append(std::int64_t value) {
    length_ += DecimalText(value).view().copy(text_.data() + length_, kLongest - length_);
}

}  // namespace sliding_log
