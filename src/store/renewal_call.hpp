// A call that renews the entries of requests under way.
#pragma once

#include <cstdint>
#include <span>

#include "servers/call.hpp"
#include "store/lease.hpp"

namespace sliding_log {

/// The order of calls on a connection is that of their execution: what is renewed has not ended, and if it ends, a ZREM
/// follows. So a renewal is never repeated: some of its leases may have ended.
class RenewalCall final : public OwnedCall<RenewalCall> {
  public:
    using OwnedCall::OwnedCall;

    bool isWanted() const override { return false; }
    bool isRepeatable() const override { return false; }

    std::uint64_t log = 0;  // in a cluster: the hash of its only log

  private:
    friend class RenewalWriter;
};

/// Writes one call at a time: begin(), add() for the leases of one log after the other, all of one hash slot, finish().
class RenewalWriter {
  public:
    void begin(RenewalCall& call, const Lease& first);
    void add(std::span<Lease* const> leases);
    void finish() { text_.writeTo(*call_); }

    /// Frees the memory that it keeps between calls.
    void freeMemory() { text_.freeMemory(); }

  private:
    RenewalCall* call_ = nullptr;
    CallText text_;
};

}  // namespace sliding_log
