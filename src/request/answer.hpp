// The answer to a denied request: nginx's own, or one for programs (`sliding_log_answer problem`).
#pragma once

#include "request/outcome.hpp"

namespace sliding_log {

/// Returns what the request is to be finalised with. By default, and wherever nginx answers in a way of its own, this
/// is the status of the outcome, and nothing is sent. That is so if the location has an error_page for the status, and
/// for statuses by which nginx closes the connection or which it changes.
///
/// Otherwise the answer is sent here: a problem of RFC 9457 that names the limits of the round which deny; to gRPC, its
/// status in the header. The response fields are added by the header filter, as to every answer.
ngx_int_t answerDenied(ngx_http_request_t* request, const LocationSettings& location, const Round& round,
                       const Outcome& outcome);

}  // namespace sliding_log
