// One limit for one request: its variables, evaluated.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

enum class Applies { Yes, No, Invalid, NoMemory };

/// Evaluates the variables of the directive for this request, and sets its decision and its check where it applies;
/// `check` is a copy of that of the settings. Invalid: a number is not valid, or is more than can be logged, or there
/// is no such store; it is written to the error log at most once a second. `context`: nullptr if there is none yet.
Applies evaluate(ngx_http_request_t* request, const Context* context, const LimitSettings& settings, Decision& decision,
                 Check& check);

/// True if the record of the whole NAME, in the store of this request, has it in a dry run.
bool isRehearsedByRecord(ngx_http_request_t* request, const Context* context, const LimitSettings& settings);

}  // namespace sliding_log
