#include "request/log_phase.hpp"

#include <exception>

#include "request/refund.hpp"
#include "request/settle.hpp"

namespace sliding_log {

ngx_int_t onLog(ngx_http_request_t* request) noexcept try {
    Context* context = request == request->main ? Context::of(request) : nullptr;
    if (context != nullptr && context->round != nullptr) {
        refundAtEnd(*context);
        settleAtEnd(*context);
    }
    return NGX_OK;
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_OK;
}

}  // namespace sliding_log
