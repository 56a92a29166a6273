#include "limit/options_text.hpp"

#include "limit/number.hpp"

namespace sliding_log {

OptionsText::OptionsText(const Check& check, std::int64_t cost, std::int64_t permits, bool isTold, std::int64_t held) {
    if (check.named) {
        word(Option::Ids);
    }
    if (cost != 1) {
        number(Option::Cost, cost);
    }
    if (check.countsAll) {
        word(Option::CountAll);
    }
    if (check.delayMs != 0) {
        number(Option::Delay, check.delayMs);
    }
    if (check.aheadMs != 0) {
        number(Option::Ahead, check.aheadMs);
    }
    if (check.blockMs != 0) {
        number(Option::Block, check.blockMs);
    }
    if (check.blockTimes.escalates()) {
        times(check.blockTimes);
    } else if (check.escalates) {
        word(Option::Escalates);
    }
    if (check.isSettled()) {
        number(Option::Settle, check.settled);
    }
    if (check.owed() > 0) {
        word(Option::Ended);
        length_ += std::string_view("000000000000").copy(text_.data() + length_, kEndedDigits);
    }
    if (permits != 0) {
        number(Option::Permits, permits);
    }
    if (held != 0) {
        number(Option::Held, held);
    }
    if (check.hasOverride) {
        word(Option::Override);
    }
    if (isTold) {
        word(Option::Told);
    }
    if (check.hasOverride && check.ofName.decides()) {
        number(check.ofName.what == Override::What::Allow ? Option::Allow : Option::Deny, check.ofName.untilMs);
    }
    if (takes(check.algorithm, Parameter::Burst)) {
        number(Option::Burst, check.burst);
    }
    if (takes(check.algorithm, Parameter::Sample)) {
        number(Option::Sample, check.sample);
    }
}

void OptionsText::word(Option option) {
    const std::string_view text = wordOf(option);
    if (length_ > 0) {
        text_[length_++] = ' ';
    }
    length_ += text.copy(text_.data() + length_, text.size());
}

void OptionsText::number(Option option, std::int64_t value) {
    word(option);
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
