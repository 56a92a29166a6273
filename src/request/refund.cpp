#include "request/refund.hpp"

#include <exception>

#include "request/asking.hpp"

namespace sliding_log {

namespace {

/// As the variable $status tells it: 499 where the client has left before an answer.
ngx_uint_t finalStatus(const ngx_http_request_t* request) {
    return request->err_status != 0 ? request->err_status : request->headers_out.status;
}

}  // namespace

ngx_int_t onLog(ngx_http_request_t* request) noexcept try {
    Context* context = request == request->main ? Context::of(request) : nullptr;
    if (context != nullptr && context->round != nullptr) {
        takeBack(*context, isRefunded, finalStatus(request));
    }
    return NGX_OK;
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_OK;
}

}  // namespace sliding_log
