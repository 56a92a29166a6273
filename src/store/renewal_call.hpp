// A call that renews the entries of requests under way.
#pragma once

#include <cstdint>
#include <span>

#include "servers/call.hpp"
#include "store/lease.hpp"

namespace sliding_log {

class RenewalCall;

class RenewalCallOwner {
  public:
    virtual void answered(RenewalCall& call, const redisReply& reply, StoreError error) = 0;
    virtual void lost(RenewalCall& call) = 0;

  protected:
    ~RenewalCallOwner() = default;
};

/// The order of calls on a connection is that of their execution: what is renewed has not ended, and if it ends, a ZREM
/// follows. So a renewal is never repeated: some of its leases may have ended.
class RenewalCall final : public Call {
  public:
    explicit RenewalCall(RenewalCallOwner& owner) : owner_(owner) {}

    void answered(const redisReply& reply, StoreError error) override { owner_.answered(*this, reply, error); }
    void lost() override { owner_.lost(*this); }
    bool isWanted() const override { return false; }
    bool isRepeatable() const override { return false; }

    std::uint64_t log = 0;  // in a cluster: the hash of its only log

  private:
    friend class RenewalWriter;

    RenewalCallOwner& owner_;
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
