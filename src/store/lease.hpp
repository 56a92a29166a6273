// An entry of algorithm=inflight: the request is under way, and its worker renews the entry until it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "limit/check.hpp"
#include "list.hpp"
#include "ngx.hpp"
#include "node/lease_length.hpp"

namespace sliding_log {

struct ByRenewal;
struct OnlyInRedis;

/// It is owned by its request, like the check and the name, and is held from Leases::begin() until Leases::end().
struct Lease : ListHook<ByRenewal>, ListHook<OnlyInRedis> {
    bool isHeld() const { return check != nullptr; }

    /// Its check, with the length that counts now.
    const Check& present() {
        length->applyTo(*check);
        return *check;
    }

    Check* check = nullptr;
    const LeaseLength* length = nullptr;
    std::string_view unique;  // the request's name in the log
    std::size_t hash = 0;     // of the log
    ngx_msec_t begunAt = 0;
    ngx_msec_t renewedAt = 0;    // or begun
    std::uint64_t localMs = 0;   // the time of the entry in the log of this node; 0: there is none
    bool mayBeInRedis = false;   // a call with it was sent
    bool countsLocally = false;  // on_error local: while Redis is away, this node counts it
};

}  // namespace sliding_log
