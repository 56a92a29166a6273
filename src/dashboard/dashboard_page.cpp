#include "dashboard/dashboard_page.hpp"

#include <string_view>

#include "conf/page_location.hpp"
#include "dashboard/data.hpp"
#include "dashboard/page.hpp"
#include "pages/response.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kJsonType = "application/json; charset=utf-8";
constexpr std::string_view kPageType = "text/html; charset=utf-8";

constexpr ResponseField kNoSniffing = {"X-Content-Type-Options", "nosniff"};
constexpr ResponseField kJsonFields[] = {kNoSniffing};

bool wantsJson(ngx_http_request_t* request) {
    ngx_str_t format;
    constexpr std::string_view kName = "format";
    return ngx_http_arg(request, toNgx(kName).data, kName.size(), &format) == NGX_OK && view(format) == "json";
}

/// The text without a copy: it lives as long as the response.
ngx_buf_t* bufferOf(ngx_pool_t* pool, std::string_view text) {
    auto* buffer = static_cast<ngx_buf_t*>(ngx_calloc_buf(pool));
    if (buffer != nullptr && text.data() != nullptr) {
        buffer->pos = buffer->start = toNgx(text).data;
        buffer->last = buffer->end = buffer->pos + text.size();
        buffer->memory = 1;
        return buffer;
    }
    return nullptr;
}

PageResponse make(ngx_http_request_t* request) {
    if (wantsJson(request)) {
        const auto& main =
            *static_cast<const MainSettings*>(ngx_http_get_module_main_conf(request, ngx_http_sliding_log_module));
        return {bufferOf(request->pool, poolCopy(request->pool, dashboardData(main))), kJsonType, kJsonFields};
    }
    static const ResponseField fields[] = {
        {"Content-Security-Policy", pagePolicy()}, {"Referrer-Policy", "no-referrer"}, kNoSniffing};
    return {bufferOf(request->pool, page()), kPageType, fields};
}

ngx_int_t answerWithPage(ngx_http_request_t* request) noexcept {
    return respond(request, make);
}

}  // namespace

char* setDashboard(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    return setPage(cf, *cmd, conf, answerWithPage);
}

}  // namespace sliding_log
