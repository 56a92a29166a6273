// The record of an override, as the tool shows and writes it; limit/override_record.hpp reads its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limit/override.hpp"
#include "limit/override_record.hpp"
#include "reply.hpp"

namespace sliding_log::tool {

struct OverrideRecord {
    Override override;         // Limit, Allow or Deny; of a NAME also DryRun
    std::int64_t sinceMs = 0;  // when it was set, by the clock of Redis
    std::string by;            // who has set it; without blanks
    std::string why;           // one line

    /// `limit=500`, `allow`, `deny` or `dry-run`.
    std::string what() const;

    /// `limit=500 until=0 since=1795339330906 by=alice why=any text`
    std::string text() const;

    /// nullopt: the text is no record.
    static std::optional<OverrideRecord> read(std::string_view text, RecordOf of);
};

/// What lies beside a log, as a decision at `nowMs` takes it.
struct BesideLog {
    std::optional<OverrideRecord> record;  // in force
    std::string trouble;                   // why what is there counts as none; empty: nothing is there, or a record
};

/// By the reply to a GET of the record's key.
BesideLog besideLog(ReplyView reply, std::int64_t nowMs);

/// The key of the record beside this log, or of that of a NAME, with its prefix.
inline std::string overrideKey(std::string_view logKey) {
    return std::string(logKey).append(kOverrideSuffix);
}

}  // namespace sliding_log::tool
