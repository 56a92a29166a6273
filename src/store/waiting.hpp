// The requests of a worker that wait for a reply of one store: until it arrives, until their deadline, or until they
// leave. Then what was sent of them is an orphan, whose entries may have to be taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "recycler.hpp"
#include "redis/timer.hpp"
#include "servers/refusals.hpp"
#include "servers/store_log.hpp"
#include "settings/settings.hpp"
#include "store/batch.hpp"
#include "store/orphan.hpp"
#include "store/store_calls.hpp"
#include "store/take_backs.hpp"

namespace sliding_log {

class Waiting {
  public:
    Waiting(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, TakeBacks& takeBacks, Refusals& refusals,
            ngx_log_t* nginxLog);

    /// A waiter that is in its batch. It is woken at most so many ms later.
    void add(Waiter& waiter, ngx_msec_t leftMs);

    /// Its request has ended. What was logged is taken back when the reply arrives: all of it if it was a reservation,
    /// otherwise of the checks with leavesWithClient.
    void cancel(Waiter& waiter);

    /// Its batch has failed, and may have been executed.
    void wakeWithoutReply(Waiter& waiter, StoreError error);

    /// The batch of an orphan has been answered, or has failed.
    void finish(Orphan& orphan, StoreError error);

    /// Takes back what a request has logged, or will log, that was woken with an error and had this unique name. If
    /// this cannot be known, and entries have no names, it counts as lost.
    void takeBackLate(LateReply& late, std::span<const Check> checks, std::string_view unique);

    /// The store is destroyed: no request is woken any more.
    void detachAll();

    bool isEmpty() const { return waiters_.isEmpty(); }

    /// What this server refused does not count any more.
    void serverLeaves(const Server& server);

    /// Without a socket a quit is not reported, and the timer would delay it.
    void stopIfEmpty();

    /// To be called about once a second; returns how many unused objects were freed, and how many requests wait.
    std::size_t tick();

  private:
    void expire();
    void timedOut(const Waiter& waiter);
    void watch(Waiter& waiter);
    Orphan& orphanOf(Waiter& waiter);

    StoreOfCalls& store_;
    const RedisSettings& settings_;
    StoreLog& log_;
    TakeBacks& takeBacks_;
    Refusals& refusals_;
    Recycler<Orphan> orphans_;
    List<Waiter, WithDeadline> waiters_;  // the first expires first
    Timer deadline_;
};

}  // namespace sliding_log
