// The access phase: asks the limits, suspends the request in the meantime, then admits or denies it.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// NGX_DECLINED: admitted (never NGX_OK, which would skip authentication under `satisfy any`). NGX_AGAIN: suspended.
/// NGX_DONE: denied and finalized (never returned as a status, which `satisfy any` could overrule).
ngx_int_t onAccess(ngx_http_request_t* request) noexcept;

}  // namespace sliding_log
