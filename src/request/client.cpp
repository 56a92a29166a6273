#include "request/client.hpp"

namespace sliding_log {

namespace {

constexpr std::size_t kPrefixBytes = 8;

/// The text of an IPv6 address, as client.hpp describes it, in the pool of the request; empty if memory is short.
std::string_view prefixText(ngx_http_request_t* request, const in6_addr& address) {
    auto* text = static_cast<u_char*>(ngx_pnalloc(request->pool, NGX_INET6_ADDRSTRLEN));
    if (text == nullptr) {
        return {};
    }
    in6_addr cut = address;
    std::size_t length = 0;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
        length = ngx_inet_ntop(AF_INET, &cut.s6_addr[12], text, NGX_INET_ADDRSTRLEN);
    } else {
        std::memset(&cut.s6_addr[kPrefixBytes], 0, sizeof cut.s6_addr - kPrefixBytes);
        length = ngx_inet_ntop(AF_INET6, &cut, text, NGX_INET6_ADDRSTRLEN);
    }
    return {reinterpret_cast<const char*>(text), length};
}

}  // namespace

ngx_int_t getClient(ngx_http_request_t* request, ngx_http_variable_value_t* value, uintptr_t) {
    const ngx_connection_t& connection = *request->connection;
    std::string_view text = view(connection.addr_text);
    if (connection.sockaddr->sa_family == AF_INET6) {
        text = prefixText(request, reinterpret_cast<const sockaddr_in6*>(connection.sockaddr)->sin6_addr);
        if (text.empty()) {
            return NGX_ERROR;
        }
    }
    value->valid = 1;
    value->no_cacheable = 0;
    value->not_found = 0;
    value->len = static_cast<unsigned>(text.size());
    value->data = toNgx(text).data;
    return NGX_OK;
}

}  // namespace sliding_log
