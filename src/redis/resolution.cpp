#include "redis/resolution.hpp"

#include <utility>

namespace sliding_log {

void Resolution::begin(ngx_resolver_t& resolver, const std::string& name, int port, ngx_msec_t timeout) {
    cancel();
    name_ = name;
    port_ = port;
    ngx_resolver_ctx_t* context = ngx_resolve_start(&resolver, nullptr);
    if (context == nullptr) {
        owner_.unresolved("out of memory");
        return;
    }
    context->name = toNgx(name_);
    context->data = this;
    context->timeout = timeout;
    context->cancelable = 1;  // a worker that quits does not wait for it
    context->handler = [](ngx_resolver_ctx_t* done) { static_cast<Resolution*>(done->data)->finished(); };
    context_ = context;
    if (ngx_resolve_name(context) != NGX_OK) {
        context_ = nullptr;  // freed
        owner_.unresolved("the resolver refused");
    }
}

void Resolution::cancel() {
    if (context_ != nullptr) {
        ngx_resolve_name_done(std::exchange(context_, nullptr));
    }
}

void Resolution::finished() {
    std::vector<Endpoint> endpoints;
    for (ngx_uint_t i = 0; i < context_->naddrs && context_->state == NGX_OK; i++) {
        u_char host[NGX_SOCKADDR_STRLEN];
        const ngx_resolver_addr_t& address = context_->addrs[i];
        const size_t length = ngx_sock_ntop(address.sockaddr, address.socklen, host, sizeof host, 0);
        endpoints.push_back({std::string(reinterpret_cast<const char*>(host), length), port_, "", ""});
    }
    const std::string reason = name_ + " could not be resolved: " + ngx_resolver_strerror(context_->state);
    cancel();
    if (endpoints.empty()) {
        owner_.unresolved(reason);
    } else {
        owner_.resolved(std::move(endpoints));
    }
}

}  // namespace sliding_log
