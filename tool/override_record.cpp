#include "override_record.hpp"

#include <utility>

#include "text.hpp"

namespace sliding_log::tool {

std::string OverrideRecord::what() const {
    return whatText(override);
}

std::string OverrideRecord::text() const {
    return what() + " until=" + std::to_string(override.untilMs) + " since=" + std::to_string(sinceMs) + " by=" + by +
           " why=" + why;
}

std::optional<OverrideRecord> OverrideRecord::read(std::string_view text, RecordOf of) {
    const std::optional<OverrideText> found = OverrideText::read(text, of);
    if (!found) {
        return std::nullopt;
    }
    std::int64_t sinceMs = 0;
    OverrideText::numberIn(found->since, sinceMs);
    return OverrideRecord{found->override, sinceMs, std::string(found->by), std::string(found->why)};
}

BesideLog besideLog(ReplyView reply, std::int64_t nowMs) {
    if (reply.isError() && reply.errorWord() != "WRONGTYPE") {
        return {std::nullopt, "not known: GET answered: " + printable(reply.text())};
    }
    if (reply.isNil()) {
        return {};
    }
    std::optional<OverrideRecord> record =
        reply.isError() ? std::nullopt : OverrideRecord::read(reply.text(), RecordOf::Key);
    if (!record) {
        return {std::nullopt, "broken: counts as none"};
    }
    const std::int64_t untilMs = record->override.untilMs;
    return untilMs > 0 && untilMs <= nowMs ? BesideLog() : BesideLog{std::move(record), ""};
}

}  // namespace sliding_log::tool
