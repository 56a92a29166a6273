// The time before the end of a certificate from which doctor warns of it.
#include "../../tool/certificate.hpp"

#include <gtest/gtest.h>
#include <openssl/x509.h>

#include <memory>

namespace sliding_log::tool {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;

std::optional<std::int64_t> leftOfOneThatEndsIn(long seconds) {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds);
    return leftOf(certificate.get());
}

TEST(Certificate, TellsHowLongItIsValid) {
    EXPECT_EQ(leftOf(nullptr), std::nullopt);
    for (const long seconds : {100'000'000L, 86'400L, 90L, -90L, -86'400L * 30}) {
        const std::optional<std::int64_t> left = leftOfOneThatEndsIn(seconds);
        ASSERT_TRUE(left);
        EXPECT_NEAR(static_cast<double>(*left), static_cast<double>(seconds) * 1000, 2000);
    }
}

TEST(Certificate, IsAWarningFourteenDaysBeforeItEnds) {
    EXPECT_EQ(certificateFinding(14 * kDayMs).status, Status::Ok);
    EXPECT_EQ(certificateFinding(14 * kDayMs - 1).status, Status::Warning);
    EXPECT_EQ(certificateFinding(1).status, Status::Warning);
    EXPECT_EQ(certificateFinding(0).status, Status::Critical);
    EXPECT_EQ(certificateFinding(3 * kDayMs).text, " ends in 3 d");
    EXPECT_EQ(certificateFinding(-3 * kDayMs).text, " has ended 3 d ago");
}

}  // namespace
}  // namespace sliding_log::tool
