// The length of the leases of one log of algorithm=inflight, as it counts now.
#pragma once

#include <cstdint>

#include "limit/check.hpp"
#include "metrics/lease_claims.hpp"

namespace sliding_log {

/// `lease=` of this configuration, or the longest one of the workers that share the zone. Other logs have one, too,
/// which changes nothing.
class LeaseLength {
  public:
    /// `claims`: of the log's name; nullptr: of another algorithm, or there is no room for them.
    LeaseLength(std::int64_t ownMs, LeaseClaims* claims) : ownMs_(ownMs), claims_(claims) {}

    std::int64_t ownMs() const { return ownMs_; }
    LeaseClaims* claims() const { return claims_; }

    /// To be called whenever the check is about to be used: it may have changed since.
    void applyTo(Check& check) const {
        if (claims_ != nullptr) {
            const std::int64_t ms = claims_->longest(ownMs_);
            check.ttlMs += ms - check.windowMs;
            check.windowMs = ms;
        }
    }

  private:
    std::int64_t ownMs_;
    LeaseClaims* claims_;
};

}  // namespace sliding_log
