// TLS to Redis: hiredis_ssl transfers the bytes; trusted certificates, verification of the name and error messages are
// set up here.
#pragma once

#include <hiredis/hiredis.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

namespace sliding_log {

/// Shared by all connections of one sliding_log_redis block. Files are only read together with the configuration.
class Tls {
  public:
    /// False if hiredis has no TLS; then no Tls is created.
    static const bool kSupported;
    /// Continues "this was ": what the build lacks, and the command that makes one with TLS.
    static std::string builtWithout();

    /// `verify`: the server must have a trusted certificate for `serverName` or, if that is empty, for the host that is
    /// connected to. Throws std::bad_alloc.
    Tls(bool verify, std::string_view serverName);

    /// These read a PEM file and return the error of OpenSSL; empty if there is none.
    std::string trust(const char* path);
    std::string useCertificate(const char* path);
    std::string useKey(const char* path);  // after useCertificate

    /// Trusts the default CA certificates of OpenSSL; false if the system has none.
    bool trustSystem();

    /// Starts TLS on a connection that is being set up. Returns its session, which the context owns, or nullptr and
    /// sets `reason`. Never waits: the handshake continues with the events of the connection.
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

/// The reason why the session failed, for messages: that of OpenSSL, or `otherwise`. Empties OpenSSL's error queue, as
/// nginx expects.
std::string tlsFailure(const SSL* session, const char* otherwise);

}  // namespace sliding_log
