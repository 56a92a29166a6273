// The permits of a Redis store (prefetch=): learned with a reply, used by waiting requests, returned in the end.
#include "store/redis_store.hpp"

namespace sliding_log {

namespace {

/// How long permits wait, after their life has ended, for calls that are sent anyway, in ms.
constexpr ngx_msec_t kReturnAfterMs = 20;

}  // namespace

void RedisStore::learnPermits(Server& server, const Batch& batch, std::span<const Check> checks) {
    server.counters().permits.add(prefetch_.learn(batch, checks, reply_));
    noteQuit();
    if (quitting_) {
        endPermits(true);  // of a call that was in flight then
    } else if (const auto endMs = prefetch_.nextEndMs(); endMs && !permitTimer_.isSet()) {
        permitTimer_.set(static_cast<ngx_msec_t>(*endMs) + kReturnAfterMs);
    }
}

/// Permits whose life has ended are returned, or all of this worker.
void RedisStore::endPermits(bool all) {
    prefetch_.endLots(all);
    if (const auto endMs = prefetch_.nextEndMs()) {
        permitTimer_.set(static_cast<ngx_msec_t>(*endMs) + kReturnAfterMs);
    }
}

/// While the batch has waited for another one, that may have got permits for its requests.
void RedisStore::servePermits(Batch& batch) {
    List<Waiter, InBatch> waiting;
    batch.waiters.moveTo(waiting);
    while (Waiter* waiter = waiting.popFront()) {
        if (waiter->permits.empty() || !prefetch_.use(waiter->checks, *waiter)) {
            batch.waiters.pushBack(*waiter);
            waiting.moveTo(batch.waiters);
            return;
        }
        waiter->detach();
        waiter->wake(*waiter, StoreError::None);
    }
}

/// The permits that the batch asked for may have been logged, and nobody will use them.
void RedisStore::failPermits(Batch& batch) {
    prefetch_.fail(batch);
    if (!batch.isInDoubt) {
        return;
    }
    const std::span<const Check> checks = batch.asked.checks.all();
    for (std::size_t i = 0; i < checks.size(); i++) {
        Check check = checks[i];
        check.cost *= batch.asked.of(i);
        check.delayMs = check.permitLifeMs;  // so far ahead are the entries
        if (check.cost > 0) {
            takeBacks_.addUnseen({&check, 1}, batch.asked.name.view());
        }
    }
}

}  // namespace sliding_log
