#include "redis/addresses.hpp"

#include <algorithm>
#include <utility>

namespace sliding_log {

namespace {

/// The addresses that the configuration found for a server, with another port if one is given.
void append(std::vector<Endpoint>& endpoints, const ServerSettings& server, int port) {
    for (ngx_uint_t i = 0; i < server.addressCount; i++) {
        const ngx_addr_t& address = server.addresses[i];
        if (address.sockaddr->sa_family == AF_UNIX) {
            endpoints.push_back({"", 0, std::string(view(address.name).substr(sizeof("unix:") - 1)), ""});
            continue;
        }
        u_char host[NGX_SOCKADDR_STRLEN];
        const size_t length = ngx_sock_ntop(address.sockaddr, address.socklen, host, sizeof host, 0);
        endpoints.push_back({std::string(reinterpret_cast<const char*>(host), length), port, "", ""});
    }
}

}  // namespace

Addresses::Addresses(const RedisSettings& settings, const ServerSettings& server)
    : settings_(settings), name_(view(server.host)), port_(server.port), fresh_(true) {
    append(endpoints_, server, port_);
    if (isAddressLiteral(name_)) {
        name_.clear();
    }
}

Addresses::Addresses(const RedisSettings& settings, std::string_view host, int port, std::string_view address)
    : settings_(settings), name_(host), port_(port) {
    if (isAddressLiteral(name_)) {
        endpoints_.push_back({std::exchange(name_, {}), port, "", ""});
        return;
    }
    const auto* servers = static_cast<const ServerSettings*>(settings.servers.elts);
    const auto* end = servers + settings.servers.nelts;
    const auto* known = std::find_if(servers, end, [&](const ServerSettings& each) { return view(each.host) == host; });
    if (known != end) {
        append(endpoints_, *known, port);
    }
    learn(address);
}

bool Addresses::learn(std::string_view address) {
    std::string told(address);
    if (name_.empty() || told == told_ || !isAddressLiteral(told)) {
        return false;
    }
    std::erase_if(endpoints_, [&](const Endpoint& each) { return each.host == told_ || each.host == told; });
    endpoints_.insert(endpoints_.begin(), {told, port_, "", ""});
    told_ = std::move(told);
    next_ = 0;
    return true;
}

void Addresses::discover(DiscoveryTarget& target) {
    target_ = &target;
    if (!name_.empty() && settings_.resolver != nullptr && !std::exchange(fresh_, false)) {
        resolution_.begin(*settings_.resolver, name_, port_, settings_.connectTimeout);
    } else {
        tell("its name is not known: nginx has no \"resolver\" in http");
    }
}

void Addresses::stop() {
    target_ = nullptr;
    resolution_.cancel();
}

void Addresses::resolved(std::vector<Endpoint> endpoints) {
    endpoints_ = std::move(endpoints);
    tell("");
}

/// The previous addresses may still work.
void Addresses::unresolved(std::string_view reason) {
    tell(reason);
}

void Addresses::tell(std::string_view reason) {
    DiscoveryTarget& target = *std::exchange(target_, nullptr);
    if (endpoints_.empty()) {
        target.notDiscovered(reason);
    } else {
        Endpoint endpoint = endpoints_[next_ % endpoints_.size()];
        endpoint.name = name_.empty() ? endpoint.host : name_;
        target.discovered(endpoint);
    }
}

}  // namespace sliding_log
