#include "certificate.hpp"

#include <openssl/asn1.h>

#include "text.hpp"

namespace sliding_log::tool {

std::optional<std::int64_t> leftOf(const X509* certificate) {
    int days = 0;
    int seconds = 0;
    if (certificate == nullptr || ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(certificate)) != 1) {
        return std::nullopt;
    }
    return (days * 86'400LL + seconds) * 1000;
}

CertificateFinding certificateFinding(std::int64_t leftMs) {
    constexpr std::int64_t kSoonMs = 14LL * 24 * 3600 * 1000;
    if (leftMs <= 0) {
        return {Status::Critical, " has ended " + duration(-leftMs) + " ago"};
    }
    return {leftMs < kSoonMs ? Status::Warning : Status::Ok, " ends in " + duration(leftMs)};
}

}  // namespace sliding_log::tool
