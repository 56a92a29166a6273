#include "override_record.hpp"

#include <utility>

#include "limit/number.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// Removes `<name>=` and the word that follows it, up to a blank; nullopt: the text begins with something else.
std::optional<std::string_view> takeWord(std::string_view& text, std::string_view name) {
    if (!text.starts_with(name) || !text.substr(name.size()).starts_with("=")) {
        return std::nullopt;
    }
    text.remove_prefix(name.size() + 1);
    const std::size_t end = text.find(' ');
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end + 1);
    return word;
}

/// ms since 1970: as many digits as a time in a log may have.
std::optional<std::int64_t> timeOf(std::optional<std::string_view> word) {
    constexpr std::size_t mostDigits = 15;
    if (!word || word->empty() || word->size() > mostDigits ||
        word->find_first_not_of("0123456789") != std::string_view::npos) {
        return std::nullopt;
    }
    return std::stoll(std::string(*word));
}

}  // namespace

std::string OverrideRecord::what() const {
    return override.what == Override::What::Limit   ? "limit=" + std::to_string(override.limit)
           : override.what == Override::What::Allow ? "allow"
                                                    : "deny";
}

std::string OverrideRecord::text() const {
    return what() + " until=" + std::to_string(override.untilMs) + " since=" + std::to_string(sinceMs) + " by=" + by +
           " why=" + why;
}

std::optional<OverrideRecord> OverrideRecord::read(std::string_view text) {
    OverrideRecord record;
    std::string_view rest = text;
    if (text.starts_with("limit=")) {
        const std::optional<std::string_view> word = takeWord(rest, "limit");
        const std::optional<std::int64_t> limit = word && word->size() <= 13 ? parseCount(*word) : std::nullopt;
        if (!limit) {
            return std::nullopt;
        }
        record.override = {Override::What::Limit, *limit, 0};
    } else if (text.starts_with("allow ") || text.starts_with("deny ")) {
        record.override.what = text.starts_with("allow") ? Override::What::Allow : Override::What::Deny;
        rest.remove_prefix(text.find(' ') + 1);
    } else {
        return std::nullopt;
    }
    const std::optional<std::int64_t> until = timeOf(takeWord(rest, "until"));
    const std::optional<std::string_view> since = takeWord(rest, "since");
    const std::optional<std::string_view> by = takeWord(rest, "by");
    constexpr std::string_view why = "why=";
    if (!until || !since || since->empty() || since->find_first_not_of("0123456789") != std::string_view::npos || !by ||
        by->find_first_of("\t\n\v\f\r") != std::string_view::npos || !rest.starts_with(why)) {
        return std::nullopt;
    }
    record.override.untilMs = *until;
    record.sinceMs = timeOf(since).value_or(0);
    record.by = *by;
    record.why = rest.substr(why.size());
    return record;
}

BesideLog besideLog(ReplyView reply, std::int64_t nowMs) {
    if (reply.isError() && reply.errorWord() != "WRONGTYPE") {
        return {std::nullopt, "not known: GET answered: " + printable(reply.text())};
    }
    if (reply.isNil()) {
        return {};
    }
    std::optional<OverrideRecord> record = reply.isError() ? std::nullopt : OverrideRecord::read(reply.text());
    if (!record) {
        return {std::nullopt, "broken: counts as none"};
    }
    const std::int64_t untilMs = record->override.untilMs;
    return untilMs > 0 && untilMs <= nowMs ? BesideLog() : BesideLog{std::move(record), ""};
}

}  // namespace sliding_log::tool
