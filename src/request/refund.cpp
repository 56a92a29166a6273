#include "request/refund.hpp"

#include "request/giving_back.hpp"

namespace sliding_log {

namespace {

/// The status of the response at the end of the request, as in $status: 499 if the client left before a response. A
/// post_action runs after the response and leaves its own status in the request, which is not used.
ngx_uint_t finalStatus(const ngx_http_request_t* request, ngx_uint_t seen) {
    if (request->header_sent != 0 && seen != 0) {
        return seen;
    }
    if (request->post_action != 0) {
        return NGX_HTTP_CLIENT_CLOSED_REQUEST;
    }
    return request->err_status != 0 ? request->err_status : request->headers_out.status;
}

/// Responses of this module itself give nothing back.
void refund(Context& context, ngx_uint_t status) {
    if (context.refunds && !context.denied) {
        takeBack(context, [&](const Round&, const Decision& decision) { return isRefunded(decision, status); });
    }
}

}  // namespace

void noteHeaderSent(Context& context) {
    context.sentStatus = context.request->headers_out.status;
    if (context.request->header_sent != 0) {
        refund(context, context.sentStatus);
    }
}

void refundAtEnd(Context& context) {
    refund(context, finalStatus(context.request, context.sentStatus));
}

}  // namespace sliding_log
