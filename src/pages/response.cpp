#include "pages/response.hpp"

#include <algorithm>
#include <exception>

namespace sliding_log {

namespace {

bool addFields(ngx_http_request_t* request, std::span<const ResponseField> fields) {
    return addField(request, "Cache-Control", "no-store") &&
           std::ranges::all_of(fields,
                               [&](const ResponseField& each) { return addField(request, each.name, each.value); });
}

ngx_int_t send(ngx_http_request_t* request, PageResponse (*make)(ngx_http_request_t*)) {
    if ((request->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) == 0) {
        return NGX_HTTP_NOT_ALLOWED;
    }
    if (const ngx_int_t rc = ngx_http_discard_request_body(request); rc != NGX_OK) {
        return rc;
    }
    const PageResponse made = make(request);
    if (made.body == nullptr || !addFields(request, made.fields)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    made.body->last_buf = request == request->main ? 1 : 0;
    made.body->last_in_chain = 1;
    request->headers_out.status = NGX_HTTP_OK;
    request->headers_out.content_length_n = made.body->last - made.body->pos;
    request->headers_out.content_type = toNgx(made.contentType);
    // without parameters, so that gzip_types and the like match; nginx then adds no charset
    request->headers_out.content_type_len = std::min(made.contentType.find(';'), made.contentType.size());
    const ngx_int_t rc = ngx_http_send_header(request);
    if (rc == NGX_ERROR || rc > NGX_OK || request->header_only != 0) {
        return rc;
    }
    ngx_chain_t chain{made.body, nullptr};
    return ngx_http_output_filter(request, &chain);
}

}  // namespace

ngx_int_t respond(ngx_http_request_t* request, PageResponse (*make)(ngx_http_request_t*)) noexcept try {
    return send(request, make);
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

}  // namespace sliding_log
