#include "redis/tls.hpp"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <filesystem>
#include <new>

#if __has_include(<hiredis/hiredis_ssl.h>)
#include <hiredis/hiredis_ssl.h>
const bool sliding_log::Tls::kSupported = true;
#else
const bool sliding_log::Tls::kSupported = false;
static int redisInitiateSSL(redisContext*, SSL*) {
    return REDIS_ERR;
}
#endif

namespace sliding_log {

namespace {

/// The first error of OpenSSL, which caused the following ones; empty if there is none. Empties the queue.
std::string takeError() {
    const unsigned long error = ERR_peek_error();
    ERR_clear_error();
    if (error == 0) {
        return {};
    }
    char text[256];  // "error:<code>:<library>::<reason>"
    ERR_error_string_n(error, text, sizeof text);
    const std::string_view reason(text);
    return std::string(reason.substr(reason.rfind(':') + 1));
}

std::string complaint(int isWell) {
    if (isWell == 1) {
        return {};
    }
    std::string error = takeError();
    return error.empty() ? "OpenSSL cannot read it" : error;
}

/// The form of certificate names in a directory of OpenSSL: eight hex digits of the subject's hash, and a number.
bool isHashedName(const std::filesystem::path& path) {
    const std::string name = path.filename();
    return name.find_first_not_of("0123456789abcdef") == 8 && name[8] == '.' && name.size() > 9 &&
           name.find_first_not_of("0123456789", 9) == std::string::npos;
}

std::string environmentOr(const char* variable, const char* otherwise) {
    const char* value = std::getenv(variable);
    return value == nullptr ? otherwise : value;
}

}  // namespace

std::string Tls::builtWithout() {
    return "built with hiredis " + std::to_string(HIREDIS_MAJOR) + "." + std::to_string(HIREDIS_MINOR) + "." +
           std::to_string(HIREDIS_PATCH) +
           ", and TLS needs 1.0 or later with hiredis_ssl; build with: HIREDIS=1.2 ./build.sh deb (or module)";
}

Tls::Tls(bool verify, std::string_view serverName)
    : context_(SSL_CTX_new(TLS_client_method())), verify_(verify), serverName_(serverName) {
    if (context_ == nullptr) {
        ERR_clear_error();
        throw std::bad_alloc();
    }
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context_.get(), verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    // An encrypted key must not prompt for its password.
    SSL_CTX_set_default_passwd_cb(context_.get(), [](char*, int, int, void*) { return 0; });
    // hiredis reads 16 KiB per event, a whole record: there is no event for data that OpenSSL has read beyond it.
    SSL_CTX_set_read_ahead(context_.get(), 0);
}

std::string Tls::trust(const char* path) {
    return complaint(SSL_CTX_load_verify_locations(context_.get(), path, nullptr));
}

std::string Tls::useCertificate(const char* path) {
    return complaint(SSL_CTX_use_certificate_chain_file(context_.get(), path));
}

std::string Tls::useKey(const char* path) {
    return complaint(SSL_CTX_use_PrivateKey_file(context_.get(), path, SSL_FILETYPE_PEM));
}

/// Not SSL_CTX_set_default_verify_paths(): it reads the directory's files when it first needs them, in a worker.
bool Tls::trustSystem() {
    trust(environmentOr(X509_get_default_cert_file_env(), X509_get_default_cert_file()).c_str());
    const std::string directory = environmentOr(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
        if (isHashedName(entry.path())) {
            trust(entry.path().c_str());
        }
    }
    return sk_X509_OBJECT_num(X509_STORE_get0_objects(SSL_CTX_get_cert_store(context_.get()))) > 0;
}

SSL* Tls::start(redisContext& context, const std::string& host, std::string& reason) const {
    ERR_clear_error();
    SSL* session = SSL_new(context_.get());
    if (session != nullptr && expectPeer(session, serverName_.empty() ? host : serverName_) &&
        redisInitiateSSL(&context, session) == REDIS_OK) {
        return session;
    }
    reason = tlsFailure(session, context.err != 0 ? context.errstr : "out of memory");
    SSL_free(session);
    return nullptr;
}

/// hiredis itself would only check the chain, and accept any certificate of a trusted CA.
bool Tls::expectPeer(SSL* session, const std::string& name) const {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), name.c_str()) == 1) {
        return true;
    }
    ERR_clear_error();
    SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(session, name.c_str()) == 1 && SSL_set_tlsext_host_name(session, name.c_str()) == 1;
}

std::string tlsFailure(const SSL* session, const char* otherwise) {
    std::string reason = takeError();
    if (session != nullptr && SSL_get_verify_mode(session) != SSL_VERIFY_NONE) {
        const long verified = SSL_get_verify_result(session);
        if (verified != X509_V_OK) {
            reason = std::string("the server's certificate: ").append(X509_verify_cert_error_string(verified));
        }
    }
    return reason.empty() ? otherwise : "TLS: " + reason;
}

}  // namespace sliding_log
