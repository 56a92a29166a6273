#include "request/redirected.hpp"

#include <exception>

#include "request/context.hpp"
#include "request/settle.hpp"
#include "request/true_cost.hpp"

namespace sliding_log {

ngx_int_t onRewrite(ngx_http_request_t* request) noexcept try {
    if (request->internal == 0 || request != request->main) {
        return NGX_DECLINED;
    }
    Context* context = Context::of(request);
    if (context == nullptr) {
        return NGX_DECLINED;
    }
    if (request->post_action != 0) {
        noteCosts(*context);
    } else {
        noteReplacedUpstream(*context);
    }
    return NGX_DECLINED;
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_DECLINED;
}

}  // namespace sliding_log
