// The record of an override as text. `sliding-log set` writes it:
//   limit=500 until=1795342930906 since=1795339330906 by=alice why=any text
// lua/override.lua explains it and reads those of keys in the same way.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limit/number.hpp"
#include "limit/override.hpp"

namespace sliding_log {

/// What is in force, in a record: `limit=500`, `allow`, `deny` or `dry-run`.
inline std::string whatText(const Override& override) {
    std::string text(wordOf(override.what));
    if (override.what == Override::What::Limit) {
        text.append("=").append(DecimalText(override.limit).view());
    }
    return text;
}

/// A record is of one key, or of all keys of a NAME: dry-run is only said of these.
enum class RecordOf : std::uint8_t { Key, Name };

/// The parts of a record, in its text.
struct OverrideText {
    Override override;       // in force, if it has not ended
    std::string_view since;  // digits
    std::string_view by;
    std::string_view why;

    /// nullopt: the text is no record.
    static std::optional<OverrideText> read(std::string_view text, RecordOf of) {
        OverrideText record;
        std::string_view until;
        if (!takeWhat(text, of, record.override) || !takeDigits(text, " until=", until) ||
            !numberIn(until, record.override.untilMs) || !takeDigits(text, " since=", record.since) ||
            !takeWord(text, " by=")) {
            return std::nullopt;
        }
        record.by = text.substr(0, text.find_first_of(" \t\n\v\f\r"));
        text.remove_prefix(record.by.size());
        if (!takeWord(text, " why=")) {
            return std::nullopt;
        }
        record.why = text;
        return record;
    }

    /// A time (ms) of as many digits as one in a log may have; false if these are more.
    static bool numberIn(std::string_view digits, std::int64_t& number) {
        constexpr std::size_t kMostDigits = 15;
        return digits.size() <= kMostDigits &&
               std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc();
    }

  private:
    static bool takeWord(std::string_view& text, std::string_view word) {
        const bool isThere = text.starts_with(word);
        text.remove_prefix(isThere ? word.size() : 0);
        return isThere;
    }

    /// One digit or more.
    static bool takeDigits(std::string_view& text, std::string_view name, std::string_view& digits) {
        if (!takeWord(text, name)) {
            return false;
        }
        digits = text.substr(0, text.find_first_not_of("0123456789"));
        text.remove_prefix(digits.size());
        return !digits.empty();
    }

    static bool takeWhat(std::string_view& text, RecordOf of, Override& what) {
        constexpr std::size_t kMostDigits = 13;  // of kLargestCount
        if (!text.starts_with("limit=")) {
            for (const Override::What each : {Override::What::Allow, Override::What::Deny, Override::What::DryRun}) {
                const bool maySay = of == RecordOf::Name || each != Override::What::DryRun;
                if (maySay && takeWord(text, wordOf(each))) {
                    what.what = each;
                    break;
                }
            }
            return what.isInForce();
        }
        std::string_view digits;
        takeDigits(text, "limit=", digits);
        const std::optional<std::int64_t> limit = digits.size() <= kMostDigits ? parseCount(digits) : std::nullopt;
        what = {Override::What::Limit, limit.value_or(0), 0};
        return limit.has_value();
    }
};

}  // namespace sliding_log
