// TLS to Redis: hiredis_ssl moves the bytes; whom to trust, the peer's name, and why it failed are ours.
#pragma once

#include <hiredis/hiredis.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

namespace sliding_log {

/// What all connections of one sliding_log_redis block have in common. Files are read at configuration only.
class Tls {
  public:
    /// False where hiredis knows no TLS; then no Tls is ever made.
    static const bool kSupported;
    static std::string hiredisVersion();

    /// `verify`: the server must prove by a trusted certificate that it is `serverName`, or where that is empty, the
    /// host that is connected to. Throws std::bad_alloc.
    Tls(bool verify, std::string_view serverName);

    /// Each reads a PEM file, and returns what OpenSSL has against it; nothing when all is well.
    std::string trust(const char* path);
    std::string useCertificate(const char* path);
    std::string useKey(const char* path);  // after useCertificate

    /// Trusts the CA certificates that OpenSSL takes by default; false when the system has none.
    bool trustSystem();

    /// Makes a connection that is being set up speak TLS. Returns its session, which the context owns, or nullptr and
    /// sets `reason`. Never waits: the handshake goes on with the connection's events.
    SSL* start(redisContext& context, const std::string& host, std::string& reason) const;

  private:
    bool expectPeer(SSL* session, const std::string& name) const;

    struct Free {
        void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    };
    std::unique_ptr<SSL_CTX, Free> context_;
    bool verify_;
    std::string serverName_;
};

/// Why the session failed, for messages: OpenSSL's reason, or `otherwise` when it has none. Leaves OpenSSL's queue of
/// errors empty, as nginx wants to find it.
std::string tlsFailure(const SSL* session, const char* otherwise);

}  // namespace sliding_log
