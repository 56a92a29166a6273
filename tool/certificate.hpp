// When a certificate ends, and what that means.
#pragma once

#include <openssl/x509.h>

#include <cstdint>
#include <optional>
#include <string>

#include "failure.hpp"

namespace sliding_log::tool {

/// How long it is still valid, by the clock of this machine; negative: it has ended. nullopt: there is no certificate.
std::optional<std::int64_t> leftOf(const X509* certificate);

struct CertificateFinding {
    Status status;
    std::string text;  // ` ends in 3 d`
};

/// A warning 14 days before the end.
CertificateFinding certificateFinding(std::int64_t leftMs);

}  // namespace sliding_log::tool
