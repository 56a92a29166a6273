// What records change in decisions: those of keys (override=on), and those of whole NAMEs.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Adapts the decision of this limit of the round, and its check, to the record that its verdict names: its source, its
/// limit. A record that is broken, or may not be read, is written to the error log, at most once a second.
void applyOverride(const ngx_http_request_t* request, Round& round, std::size_t limit);

/// Adapts the check of this decision, whose numbers are those of the configuration, to the record of its NAME.
void obeyRecordOfName(const Decision& decision, Check& check);

/// The verdict of that record, which allows or denies.
void setVerdictOfName(const Decision& decision, const Check& check, Verdict& verdict);

}  // namespace sliding_log
