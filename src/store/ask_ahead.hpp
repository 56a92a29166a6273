// Calls without requests, which ask for the next permits of busy keys before the node has used the last ones, so that
// no request waits for them (prefetch=).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "node/permit.hpp"
#include "recycler.hpp"
#include "redis/reply.hpp"
#include "servers/call.hpp"
#include "store/prefetch.hpp"
#include "store/store_calls.hpp"

namespace sliding_log {

/// If it cannot be answered, the next use of a permit asks again.
class PermitCall final : public OwnedCall<PermitCall> {
  public:
    using OwnedCall::OwnedCall;

    bool isWanted() const override { return true; }

    AskedPermits asked;  // by the only log of the call

  private:
    friend class AskAhead;
};

class AskAhead final : public CallOwner<PermitCall> {
  public:
    /// The reply to such a call.
    using Learn = std::function<void(Server& server, const AskedPermits& asked, BatchReply& reply)>;

    /// It was not granted any. `isInDoubt`: they may be in the log.
    using Fail = std::function<void(const AskedPermits& asked, bool isInDoubt)>;

    AskAhead(StoreOfCalls& store, Prefetch& prefetch, ngx_msec_t timeoutMs, Learn learn, Fail fail)
        : store_(store), prefetch_(prefetch), timeoutMs_(timeoutMs), learn_(std::move(learn)), fail_(std::move(fail)) {}

    /// Sends what is due. `now`: bootTimeMs() before the calls are stamped.
    void send(std::uint64_t now);

    /// To be called about once a second; returns how many unused objects were freed.
    std::size_t freeUnused();

  private:
    void answered(PermitCall& call, const redisReply& reply, StoreError ofCall) override;
    void lost(PermitCall& call) override;
    StoreError read(const PermitCall& call, const redisReply& reply);
    void failed(PermitCall& call, bool isInDoubt);
    void finish(PermitCall& call);

    StoreOfCalls& store_;
    Prefetch& prefetch_;
    const ngx_msec_t timeoutMs_;
    Learn learn_;
    Fail fail_;
    Recycler<PermitCall> calls_;
    CallText text_;
    BatchReply reply_;
};

}  // namespace sliding_log
