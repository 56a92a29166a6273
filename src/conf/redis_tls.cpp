#include "conf/redis_tls.hpp"

#include <exception>
#include <string>

#include "conf/refuse.hpp"
#include "limit/store_directive.hpp"
#include "redis/tls.hpp"

namespace sliding_log {

namespace {

struct TlsFile {
    std::string_view directive;
    const ngx_str_t& path;
    std::string_view expected;
    std::string (Tls::*read)(const char* path);
};

char* readFile(ngx_conf_t* cf, Tls& tls, const TlsFile& file) {
    if (file.path.data == nullptr) {
        return kConfOk;
    }
    ngx_str_t path = file.path;
    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return kConfError;
    }
    const std::string complaint = (tls.*file.read)(reinterpret_cast<const char*>(path.data));
    if (complaint.empty()) {
        return kConfOk;
    }
    return refuse(cf, file.directive, "file", view(path), std::string(file.expected).append(": ").append(complaint));
}

/// Refuses directives of TLS if it is not on: they would have no effect.
char* checkUnused(ngx_conf_t* cf, const TlsSettings& tls) {
    const struct {
        std::string_view directive;
        const ngx_str_t& value;
    } given[] = {
        {nameOf(StoreDirective::TlsTrustedCertificate), tls.trustedCertificate},
        {nameOf(StoreDirective::TlsCertificate), tls.certificate},
        {nameOf(StoreDirective::TlsCertificateKey), tls.certificateKey},
        {nameOf(StoreDirective::TlsServerName), tls.serverName},
    };
    for (const auto& each : given) {
        if (each.value.data != nullptr) {
            return refuseHere(cf, each.directive, view(each.value), "tls on beside it, or tls off");
        }
    }
    if (tls.verify != NGX_CONF_UNSET_UINT) {
        return refuseHere(cf, nameOf(StoreDirective::TlsVerify), tls.verify ? "on" : "off",
                          "tls on beside it, or tls off");
    }
    return kConfOk;
}

char* checkUsed(ngx_conf_t* cf, const RedisSettings& redis) {
    const TlsSettings& tls = redis.tls;
    if (!Tls::kSupported) {
        return refuse(cf, nameOf(StoreDirective::Tls), "value", "on", "off: the module was " + Tls::builtWithout());
    }
    const auto* servers = static_cast<const ServerSettings*>(redis.servers.elts);
    for (ngx_uint_t i = 0; i < redis.servers.nelts; i++) {
        if (servers[i].host.len == 0) {
            return refuse(cf, nameOf(StoreDirective::Server), "address", view(servers[i].text),
                          "one that is reached by TCP with tls on");
        }
    }
    if ((tls.certificate.data == nullptr) != (tls.certificateKey.data == nullptr)) {
        const bool hasKey = tls.certificate.data == nullptr;
        return refuseHere(cf,
                          hasKey ? nameOf(StoreDirective::TlsCertificateKey) : nameOf(StoreDirective::TlsCertificate),
                          view(hasKey ? tls.certificateKey : tls.certificate),
                          hasKey ? "tls_certificate with it" : "tls_certificate_key with it");
    }
    return kConfOk;
}

Tls* newTls(ngx_conf_t* cf, const TlsSettings& settings) {
    ngx_pool_cleanup_t* cleanup = ngx_pool_cleanup_add(cf->pool, sizeof(Tls));
    if (cleanup == nullptr) {
        return nullptr;
    }
    Tls* tls = new (cleanup->data) Tls(settings.verify != 0, view(settings.serverName));
    cleanup->handler = [](void* data) { static_cast<Tls*>(data)->~Tls(); };
    return tls;
}

}  // namespace

char* prepareTls(ngx_conf_t* cf, RedisSettings& redis) try {
    TlsSettings& settings = redis.tls;
    if (settings.on == NGX_CONF_UNSET_UINT) {
        return checkUnused(cf, settings);
    }
    if (settings.on == 0) {
        return kConfOk;
    }
    if (char* rv = checkUsed(cf, redis); rv != kConfOk) {
        return rv;
    }
    ngx_conf_init_uint_value(settings.verify, 1);
    Tls* tls = newTls(cf, settings);
    if (tls == nullptr) {
        return kConfError;
    }
    redis.tlsContext = tls;
    const TlsFile files[] = {
        {nameOf(StoreDirective::TlsTrustedCertificate), settings.trustedCertificate, "a PEM file of CA certificates",
         &Tls::trust},
        {nameOf(StoreDirective::TlsCertificate), settings.certificate, "a PEM certificate, with its chain",
         &Tls::useCertificate},
        {nameOf(StoreDirective::TlsCertificateKey), settings.certificateKey, "the certificate's PEM key, not encrypted",
         &Tls::useKey},
    };
    for (const TlsFile& file : files) {
        if (char* rv = readFile(cf, *tls, file); rv != kConfOk) {
            return rv;
        }
    }
    if (settings.verify != 0 && settings.trustedCertificate.data == nullptr && !tls->trustSystem()) {
        return refuseHere(cf, nameOf(StoreDirective::TlsVerify), "on",
                          "tls_trusted_certificate, as this system has no CA certificates");
    }
    return kConfOk;
} catch (const std::exception& e) {
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"tls\" failed: %s", e.what());
    return kConfError;
}

}  // namespace sliding_log
