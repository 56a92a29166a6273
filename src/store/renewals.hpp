// The requests under way in a Redis store (algorithm=inflight): how their entries are renewed while they last, in Redis
// or, while that is away, in the log of this node. They are given back by TakeBacks.
#pragma once

#include <cstdint>
#include <span>

#include "limit/check.hpp"
#include "local/local_store.hpp"
#include "recycler.hpp"
#include "redis/timer.hpp"
#include "servers/store_log.hpp"
#include "settings/settings.hpp"
#include "store/leases.hpp"
#include "store/renewal_call.hpp"
#include "store/store_calls.hpp"
#include "this_process.hpp"

namespace sliding_log {

class Renewals final : public CallOwner<RenewalCall> {
  public:
    Renewals(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, LocalStore& local, ngx_log_t* nginxLog);

    /// The request is under way from now on: its entry is renewed until end(). While Redis is away, the log of this
    /// node has it, if it is to be counted there.
    void begin(Lease& lease);
    void end(Lease& lease);

    /// False while a request is under way: a worker that quits stays.
    bool isEmpty() const { return leases_.isEmpty(); }

    /// To be called when Redis could not decide this check, before the log of this node does: it enters the requests
    /// that this worker has under way in that log.
    void countLocally(const Check& decided);

    /// A server has answered again: what it lost meanwhile is renewed.
    void serverReady();

    /// A server is away: those whose server does not decide are entered in the log of this node.
    void countLocally();

    /// To be called about once a second; returns how many unused objects were freed.
    std::size_t freeUnused();

  private:
    void answered(RenewalCall& call, const redisReply& reply, StoreError error) override;
    void lost(RenewalCall& call) override;

    bool isServed(const Lease& lease);
    void renew(std::span<Lease*> leases);
    RenewalCall& newCall(const Lease& first);
    void send(Server& server, RenewalCall& call);
    void watch();
    bool follow(const RenewalCall& call, const redisReply& reply, StoreError error);
    void renewWith(Server& importing, std::uint64_t log, std::uint16_t hashSlot);
    void enterLocally(Lease& lease);
    void renewLocally(std::span<Lease*> leases);
    void leaveLocally(std::span<Lease*> leases);
    void watchForLocal(std::span<Lease*> leases);

    StoreOfCalls& store_;
    const RedisSettings& settings_;
    StoreLog& log_;
    LocalStore& local_;
    Recycler<RenewalCall> calls_;
    RenewalWriter writer_;
    Timer watchTimer_;  // for renewals that are not answered
    Leases leases_;
    List<Lease, OnlyInRedis> onlyInRedis_;  // those that countLocally() is to enter
    ngx_msec_t countsLocallyUntil_ = nowMs();
    ngx_msec_t renewsApartUntil_ = nowMs();
    std::uint64_t renewedElsewhere_ = 0;  // the hash of the log that renewWith() renewed last
    ngx_msec_t renewedElsewhereUntil_ = nowMs();
};

}  // namespace sliding_log
