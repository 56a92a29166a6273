// Finds the limits that apply to a request, makes their checks, and divides them into stages.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// The limits of this location that are in a dry run now: by the configuration, or by the record of their NAME.
/// `context`: nullptr if there is none yet.
LimitSet rehearsedIn(ngx_http_request_t* request, const LocationSettings& location, const Context* context);

/// Begins a round with the limits of this location that apply to the request and were not asked before: those to be
/// enforced, or those of the dry run (`rehearsed`). Creates the Context if there is none. NGX_OK: context->round is
/// new. NGX_DECLINED: there is nothing to ask. NGX_ERROR: memory is short.
ngx_int_t beginRound(ngx_http_request_t* request, const LocationSettings& location, LimitSet rehearsed, bool isDryRun,
                     Context*& context);

/// Divides a stage of the latest round into stages of one limit each, which are open.
void divide(Context& context, Stage& stage);

}  // namespace sliding_log
