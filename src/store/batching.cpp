#include "store/batching.hpp"

#include <algorithm>
#include <utility>

#include "shared/boot_time.hpp"
#include "store/server_queues.hpp"
#include "this_process.hpp"

namespace sliding_log {

Batch& Batching::batchFor(std::span<const Check> checks, Signature& signature) {
    const bool waits = signature.hasCosts() && isLong(checks);
    if (waits) {
        signature.leaveOutCosts();
    }
    Batch* first = batches_.find(signature);
    if (first == nullptr) {
        first = &newBatch(checks, signature);
        first->last = first;
        batches_.insert(*first);
        open(*first);
    } else if (first->last->sent || first->last->isFull() || (waits && !first->last->hasCostsOf(checks))) {
        Batch& next = newBatch(checks, signature);
        first->last->follower = &next;
        first->last = &next;
    }
    return *first->last;
}

Batch& Batching::newBatch(std::span<const Check> checks, const Signature& signature) {
    Batch& batch = batchObjects_.take();
    batch.signature = signature;
    batch.requests = 0;
    batch.workOfLogs = workOfLogs(checks);
    batch.workOfRequest = workOfRequest(checks);
    batch.algorithm = checks.front().algorithm;
    batch.hashSlot = checks.front().hashSlot;
    batch.sent = batch.refreshes = false;
    batch.refusedBy = nullptr;
    batch.refusal.clear();
    batch.isInDoubt = batch.isFollower = false;
    batch.notesPermits = std::ranges::any_of(checks, [](const Check& check) { return check.permitLifeMs > 0; });
    hasPermits_ = hasPermits_ || batch.notesPermits;
    batch.hasSoughtPermits = false;
    batch.asked.clear();
    batch.follower = batch.last = nullptr;
    return batch;
}

/// Queues the batch at the server that serves it, or until this server is known.
void Batching::open(Batch& batch) {
    Server* server = store_.serverOf(batch.hashSlot);
    (server == nullptr ? unplaced_ : queuesOf(*server).batches).pushBack(batch);
    store_.flushSoon();
}

/// Like open(), for a batch that has already waited: if no server can be asked, it does not wait any more.
void Batching::openAgain(List<Batch, Opened>& batches) {
    List<Batch, Opened> again;
    batches.moveTo(again);
    while (Batch* batch = again.popFront()) {
        if (store_.canBeAsked(batch->hashSlot)) {
            open(*batch);
        } else {
            owner_.failed(*batch, StoreError::Down);
            batches.moveTo(again);  // its follower
        }
    }
}

void Batching::openAgain(Server& server) {
    openAgain(queuesOf(server).batches);
}

void Batching::beginTurn() {
    if (hasPermits_) {
        turnAt_ = bootTimeMs();
        if (settings_.clock == static_cast<ngx_uint_t>(Clock::Nginx)) {
            ngx_time_update();  // permits are stamped no earlier than turnAt_
        }
    }
}

Batch* Batching::nextToSend(Server& server) {
    while (!queuesOf(server).batches.isEmpty()) {
        Batch& batch = queuesOf(server).batches.front();
        const bool isFirst = batch.notesPermits && !std::exchange(batch.hasSoughtPermits, true);
        if (isFirst && batch.isFollower) {
            servePermits(batch);
        }
        if (std::exchange(batch.isFollower, false)) {
            denyKnown(batch);
        }
        if (batch.requests > 0) {
            if (isFirst && !store_.isQuitting()) {
                prefetch_.ask(batch, turnAt_, settings_.timeout);
            }
            return &batch;
        }
        queuesOf(server).batches.popFront();
        finish(batch);
    }
    return nullptr;
}

void Batching::sent(Server& server, Batch& batch) {
    queuesOf(server).batches.popFront();
    batch.sent = true;
    batch.sentAt = nowMs();
    batch.generation = knownDenials_.generation(batch.signature);
}

/// While the batch has waited for another one, that may have been denied.
void Batching::denyKnown(Batch& batch) {
    if (batch.waiters.isEmpty() || batch.refreshes) {
        return;
    }
    const Waiter& first = batch.waiters.front();
    const DenialState state = knownDenials_.find(batch.signature, first.checks, nowMs(), first.verdicts);
    if (state == DenialState::None) {
        return;
    }
    if (state == DenialState::Due && knownDenials_.claim(batch.signature, first.checks, nowMs())) {
        batch.refreshes = true;
        return;
    }
    List<Waiter, InBatch> denied;
    batch.waiters.moveTo(denied);
    const std::span<const Verdict> verdicts = denied.front().verdicts;
    while (Waiter* waiter = denied.popFront()) {
        std::ranges::copy(verdicts, waiter->verdicts.begin());
        waiter->known = true;
        waiter->detach();
        waiter->wake(*waiter, StoreError::None);
    }
}

/// While the batch has waited for another one, that may have got permits for its requests.
void Batching::servePermits(Batch& batch) {
    List<Waiter, InBatch> waiting;
    batch.waiters.moveTo(waiting);
    while (Waiter* waiter = waiting.popFront()) {
        if (waiter->permits.empty() || !prefetch_.use(waiter->checks, waiter->unique, *waiter)) {
            batch.waiters.pushBack(*waiter);
            waiting.moveTo(batch.waiters);
            return;
        }
        waiter->detach();
        waiter->wake(*waiter, StoreError::None);
    }
}

void Batching::finish(Batch& batch) {
    batches_.erase(batch);
    if (Batch* next = batch.follower) {
        next->last = batch.last;
        next->isFollower = true;
        batches_.insert(*next);
        open(*next);
    }
    batchObjects_.recycle(batch);
}

}  // namespace sliding_log
