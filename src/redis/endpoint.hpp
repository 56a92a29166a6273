// The address of a server: a literal, never a name, since hiredis blocks to resolve names.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sliding_log {

struct Endpoint {
    std::string host;  // IPv4 or IPv6 literal; empty: a unix socket
    int port = 0;
    std::string path;  // of the unix socket
    std::string name;  // the host name or address literal that TLS verifies

    bool operator==(const Endpoint&) const = default;
};

/// `host:port`, `[host]:port` for IPv6: the name of a server in messages and in a cluster.
inline std::string hostAndPort(std::string_view host, int port) {
    const bool bare = host.find(':') == std::string_view::npos;
    std::string text(bare ? "" : "[");
    return text.append(host).append(bare ? ":" : "]:").append(std::to_string(port));
}

inline bool isAddressLiteral(const std::string& host) {
    unsigned char address[sizeof(in6_addr)];
    return inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
}

/// True if this can be an address literal or a host name: nothing else that a server sends is looked up or logged.
inline bool isHost(std::string_view text) {
    constexpr std::size_t longest = 253;
    return !text.empty() && text.size() <= longest && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
               c == '_' || c == ':';
    });
}

/// 1 to 65535; nullopt for any other text.
inline std::optional<int> parsePort(std::string_view text) {
    int port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    const bool isPort = error == std::errc() && end == text.data() + text.size() && port > 0 && port < 65536;
    return isPort ? std::optional(port) : std::nullopt;
}

}  // namespace sliding_log
