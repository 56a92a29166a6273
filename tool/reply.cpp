#include "reply.hpp"

#include <charconv>

namespace sliding_log::tool {

namespace {

std::optional<std::int64_t> integerAtStart(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) {
        return std::nullopt;
    }
    const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
    return rest.empty() || rest.front() == '.' ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> ReplyView::number() const {
    if (reply_ != nullptr && reply_->type == REDIS_REPLY_INTEGER) {
        return reply_->integer;
    }
    return isError() ? std::nullopt : integerAtStart(text());
}

ReplyView ReplyView::field(std::string_view name) const {
    for (std::size_t i = 0; i + 1 < size(); i += 2) {
        if ((*this)[i].text() == name) {
            return (*this)[i + 1];
        }
    }
    return ReplyView(nullptr);
}

std::int64_t timeIn(ReplyView reply) {
    return reply[0].numberOr(0) * 1000 + reply[1].numberOr(0) / 1000;
}

std::string_view infoField(std::string_view info, std::string_view field) {
    while (!info.empty()) {
        std::string_view line = info.substr(0, info.find('\n'));
        info.remove_prefix(std::min(info.size(), line.size() + 1));
        if (line.starts_with(field) && line.substr(field.size()).starts_with(':')) {
            line.remove_prefix(field.size() + 1);
            return line.substr(0, line.find('\r'));
        }
    }
    return {};
}

std::int64_t infoNumber(std::string_view info, std::string_view field) {
    return integerAtStart(infoField(info, field)).value_or(0);
}

}  // namespace sliding_log::tool
