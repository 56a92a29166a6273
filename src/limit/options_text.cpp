#include "limit/options_text.hpp"

#include "limit/number.hpp"

namespace sliding_log {

OptionsText::OptionsText(const Question& question) {
    if (question.named) {
        word("ids");
    }
    if (question.cost != 1) {
        number("cost=", question.cost);
    }
    if (question.countsAll) {
        word("count=all");
    }
    if (question.delayMs != 0) {
        number("delay=", question.delayMs);
    }
    if (question.aheadMs != 0) {
        number("ahead=", question.aheadMs);
    }
    if (question.blockMs != 0) {
        number("block=", question.blockMs);
    }
    if (takes(question.algorithm, Parameter::Burst)) {
        number("burst=", question.burst);
    }
    if (takes(question.algorithm, Parameter::Sample)) {
        number("sample=", question.sample);
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
    length_ += DecimalText(value).view().copy(text_.data() + length_, kLongest - length_);
}

}  // namespace sliding_log
