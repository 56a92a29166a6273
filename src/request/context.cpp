#include "request/context.hpp"

#include "limit/key.hpp"

namespace sliding_log {

std::string_view keyWithoutPrefix(const Decision& decision) {
    return decision.key.substr(decision.home == nullptr ? 0 : decision.home->prefix.len);
}

std::string_view shownKey(const Decision& decision) {
    if (decision.key.empty()) {
        return {};
    }
    const LogSettings& log = *decision.settings->log;
    return shownValue(valueIn(keyWithoutPrefix(decision), view(log.name)), log.secrecy);
}

std::string_view shownName(const Decision& decision) {
    const std::string_view key = keyWithoutPrefix(decision);
    const std::string_view shown = shownKey(decision);
    return {key.data(), static_cast<std::size_t>(shown.data() + shown.size() - key.data())};
}

Context* Context::of(ngx_http_request_t* request) {
    auto* context = static_cast<Context*>(ngx_http_get_module_ctx(request, ngx_http_sliding_log_module));
    if (context != nullptr || !(request->internal || request->filter_finalize)) {
        return context;
    }
    // an internal redirect has cleared the module contexts; see ngx_http_realip_get_module_ctx
    for (ngx_pool_cleanup_t* cleanup = request->pool->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler == cancelRequest) {
            context = static_cast<Context*>(cleanup->data);
            ngx_http_set_ctx(request, context, ngx_http_sliding_log_module);
            return context;
        }
    }
    return nullptr;
}

Context* Context::create(ngx_http_request_t* request) {
    static_assert(std::is_trivially_destructible_v<Context>);
    ngx_pool_cleanup_t* cleanup = ngx_pool_cleanup_add(request->pool, sizeof(Context));
    if (cleanup == nullptr) {
        return nullptr;
    }
    auto* context = new (cleanup->data) Context();
    context->request = request;
    cleanup->handler = cancelRequest;
    ngx_http_set_ctx(request, context, ngx_http_sliding_log_module);
    return context;
}

bool Context::hasAsked(const LogSettings& log, bool isDryRun) const {
    for (const Round* each = round; each != nullptr; each = each->previous) {
        const bool counts = isDryRun || !each->isDryRun;
        if (counts && std::ranges::any_of(each->all(),
                                          [&](const Decision& decision) { return decision.settings->log == &log; })) {
            return true;
        }
    }
    return false;
}

bool Context::upstreamWorkedSince(const Round& since) const {
    const ngx_array_t* states = request->upstream_states;
    if (states == nullptr) {
        return false;
    }
    const std::span all(static_cast<const ngx_http_upstream_state_t*>(states->elts), states->nelts);
    return std::ranges::any_of(all.subspan(std::min<std::size_t>(since.upstreamsBefore, all.size())),
                               [](const ngx_http_upstream_state_t& state) { return state.bytes_sent > 0; });
}

}  // namespace sliding_log
