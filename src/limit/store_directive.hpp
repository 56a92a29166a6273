// The words of store=, and the directives inside sliding_log_redis with their names: as the module reads them, and as
// the tool finds them in nginx's configuration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

/// The memory of the node. No sliding_log_redis has this name.
inline constexpr std::string_view kLocalStore = "local";

/// The name of a sliding_log_redis without one. As the value of a variable, and if no block has this name: the store of
/// a limit without store=.
inline constexpr std::string_view kDefaultStore = "default";

enum class StoreDirective : std::uint8_t {
    Server,
    Mode,
    SentinelUsername,
    SentinelPassword,
    Username,
    Password,
    PasswordFile,
    Database,
    Prefix,
    ConnectTimeout,
    Timeout,
    Reconnect,
    Clock,
    Native,
    Tls,
    TlsVerify,
    TlsTrustedCertificate,
    TlsCertificate,
    TlsCertificateKey,
    TlsServerName
};

/// Indexed by StoreDirective.
inline constexpr std::array<std::string_view, static_cast<std::size_t>(StoreDirective::TlsServerName) + 1>
    kStoreDirectiveNames = {"server",
                            "mode",
                            "sentinel_username",
                            "sentinel_password",
                            "username",
                            "password",
                            "password_file",
                            "database",
                            "prefix",
                            "connect_timeout",
                            "timeout",
                            "reconnect",
                            "clock",
                            "native",
                            "tls",
                            "tls_verify",
                            "tls_trusted_certificate",
                            "tls_certificate",
                            "tls_certificate_key",
                            "tls_server_name"};

constexpr std::string_view nameOf(StoreDirective directive) {
    return kStoreDirectiveNames[static_cast<std::size_t>(directive)];
}

static_assert(nameOf(StoreDirective::TlsServerName) == "tls_server_name" &&
              nameOf(StoreDirective::Database) == "database");

}  // namespace sliding_log
