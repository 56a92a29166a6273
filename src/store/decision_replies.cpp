// The calls of decisions that have been sent: what their replies mean, and which calls are repeated.
#include <algorithm>
#include <optional>
#include <utility>

#include "limit/key.hpp"
#include "store/decisions.hpp"
#include "store/server_queues.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// LOADING, BUSY, TRYAGAIN, CLUSTERDOWN: repeated after this time, in ms, within the timeout.
constexpr ngx_msec_t kRepeatAfterMs = 10;

/// An error of a batch, from its script, with one of its logs.
bool mayBeOfOneLog(StoreError error, std::string_view message) {
    return error == StoreError::WrongType || error == StoreError::OutOfMemory ||
           (error == StoreError::Refused && !isOfScripts(message) && !isOfAllWrites(message));
}

/// True if a call that a request waits for asks several logs.
bool hasSeveralLogs(const DecisionCall& call) {
    return call.batches.size() > 1 || call.batches.front()->waiters.front().checks.size() > 1;
}

/// One reply for each batch, and perhaps the time; a text is the reply of a whole short call only.
bool isOfBatches(const redisReply& reply, std::size_t batches) {
    return reply.type == REDIS_REPLY_ARRAY && (reply.elements == batches || timeBehind(reply, batches) != nullptr) &&
           std::none_of(reply.element, reply.element + batches,
                        [](const redisReply* batch) { return batch->type == REDIS_REPLY_STRING; });
}

}  // namespace

/// Sends the call to the server that serves its hash slot.
void Decisions::route(DecisionCall& call) {
    call.followsAsk = false;
    if (!call.isWaitedFor() || !store_.canBeAsked(call.hashSlot)) {
        failed(call, StoreError::Down);
    } else if (Server* server = store_.topology().serverOf(call.hashSlot)) {
        server->send(call);
    } else {
        repeatSoon(call);
    }
}

void Decisions::answered(const Server& server, std::uint16_t hashSlot, StoreError error) {
    if (!refusals_.isEmpty() && error != StoreError::TryAgain && error != StoreError::Moved) {
        refusals_.served(&server, hashSlot, nowMs());
    }
}

void Decisions::answered(DecisionCall& call, const redisReply& reply, StoreError error) {
    if (call.readsRecord &&
        (error == StoreError::None || error == StoreError::WrongType || error == StoreError::Forbidden)) {
        recordRead(call, replyText(reply));
        return;
    }
    switch (error) {
        case StoreError::None:
            applyReply(call, reply);
            return;
        case StoreError::TryAgain:
        case StoreError::NotMaster:
        case StoreError::Moved:
        case StoreError::Ask:
            if (call.isWaitedFor()) {
                call.repetitions++;
                repeat(call, reply, error);
                return;
            }
            break;
        case StoreError::Down:
        case StoreError::Timeout:
        case StoreError::NoScript:
        case StoreError::OutOfMemory:
        case StoreError::WrongType:
        case StoreError::Forbidden:
        case StoreError::Refused:
        case StoreError::Unexpected:
            log_.failure(call.server->shownName(), "answered", replyText(reply));
            if (isOfKeys(replyText(reply))) {
                askApart(call, error);
                return;
            }
    }
    failed(call, error);
}

/// Nothing was done for such a call: the same or another server may execute it.
void Decisions::repeat(DecisionCall& call, const redisReply& reply, StoreError error) {
    Server& server = *call.server;
    if (error == StoreError::NotMaster) {
        store_.leaveAsReadOnly(server, reply);
        server.send(call);
        return;
    }
    if (error == StoreError::TryAgain) {
        const bool isUnderWay = isOfSlotUnderWay(replyText(reply));
        if (!isUnderWay) {
            store_.topology().suspect();
        }
        if (isUnderWay && hasSeveralLogs(call)) {
            isolatedLogs_.addSlot(call.hashSlot, nowMs());
            askApart(call, error);
        } else if (isOfSlots(replyText(reply))) {
            waitOut(call, replyText(reply), error);
        } else {
            repeatSoon(call);
        }
        return;
    }
    if (error == StoreError::Ask && call.hasOverride() && !call.readsRecord && !call.isTold) {
        if (hasSeveralLogs(call)) {
            isolatedLogs_.addSlot(call.hashSlot, nowMs());
            askApart(call, error);
            return;
        }
        Batch& batch = *call.batches.front();
        calls_.recycle(call);
        readRecord(batch);
        return;
    }
    Server* target = store_.redirectedBy(call, reply, error);
    if (target == nullptr) {
        log_.failure(server.shownName(), "answered", replyText(reply));
        failed(call, StoreError::Refused);
    } else if (call.repetitions > Call::kMostRedirects) {
        waitOut(call, replyText(reply), error);
    } else {
        call.followsAsk = error == StoreError::Ask;
        target->send(call);
    }
}

void Decisions::repeatSoon(DecisionCall& call) {
    queued_.pushBack(call);
    if (!repeat_.isSet()) {
        repeat_.set(kRepeatAfterMs);
    }
}

void Decisions::repeatQueued() {
    List<Call, Queued> again;
    queued_.moveTo(again);
    while (Call* call = again.popFront()) {
        route(static_cast<DecisionCall&>(*call));
    }
}

/// Repeats the call in a moment, unless a request has already waited in vain for another reply than this one.
void Decisions::waitOut(DecisionCall& call, std::string_view answer, StoreError error) {
    if (refusals_.isLasting(call.server, call.hashSlot, answer, nowMs())) {
        log_.failure(call.server->shownName(), "answered", answer);
        failed(call, error);
        return;
    }
    for (Batch* batch : call.batches) {
        batch->refusedBy = call.server;
        batch->refusal = answer;
    }
    repeatSoon(call);
}

/// Nothing was done for the call, possibly because of one of its logs: each batch gets a call of its own; if it already
/// has one, its requests ask each log separately.
void Decisions::askApart(DecisionCall& call, StoreError error) {
    if (call.batches.size() == 1) {
        refuse(*call.batches.front(), error);
        call.batches.clear();
    }
    for (Batch* batch : call.batches) {
        if (!askAnew(*batch)) {
            continue;
        }
        DecisionCall& own = calls_.take(*this);
        writer_.begin(own, *batch, store_.stamp(batch->algorithm));
        writer_.add(*batch);
        writer_.finish();
        own.isPart = true;
        route(own);
    }
    calls_.recycle(call);
    store_.closeWhenUnused();
}

/// The batch was not decided and is written again, for the requests that still wait; false if there is none.
bool Decisions::askAnew(Batch& batch) {
    while (Waiter* orphan = batch.orphans.popFront()) {
        waiting_.finish(static_cast<Orphan&>(*orphan), StoreError::TryAgain);
    }
    batch.requests = 0;
    batch.waiters.forEach([&](Waiter&) { batch.requests++; });
    if (batch.requests == 0) {
        batching_.finish(batch);
        return false;
    }
    return true;
}

/// The slot of the batch is under way, so that its log and the record of that may be on two nodes: the record is read
/// first, from the one that has it.
void Decisions::readRecord(Batch& batch) {
    if (askAnew(batch)) {
        DecisionCall& call = calls_.take(*this);
        DecisionWriter::writeReading(call, batch);
        route(call);
    }
}

/// `record`: its text, "" if there is none, or an error that the script tells from a record.
void Decisions::recordRead(DecisionCall& call, std::string_view record) {
    if (askAnew(*call.batches.front())) {
        writer_.tell(call, record, store_.stamp(call.algorithm));
        route(call);
    } else {
        calls_.recycle(call);
        store_.closeWhenUnused();
    }
}

void Decisions::applyReply(DecisionCall& call, const redisReply& reply) {
    const bool isShort = call.isShort && reply.type == REDIS_REPLY_STRING;
    if (!isShort && !isOfBatches(reply, call.batches.size())) {
        call.server->closeAsUnreliable();
        failed(call, StoreError::Unexpected);
        return;
    }
    const redisReply* time = timeBehind(reply, call.batches.size());
    for (std::size_t i = 0; i < call.batches.size(); i++) {
        applyReply(*call.server, *call.batches[i], isShort ? reply : *reply.element[i], time);
    }
    calls_.recycle(call);
    store_.closeWhenUnused();
}

void Decisions::applyReply(Server& server, Batch& batch, const redisReply& reply, const redisReply* time) {
    List<Waiter, InBatch>& any = batch.waiters.isEmpty() ? batch.orphans : batch.waiters;
    const std::span<const Check> checks = any.isEmpty() ? std::as_const(batch.asked.checks).all() : any.front().checks;
    const StoreError error =
        checks.empty() ? errorIn(reply) : reply_.read(reply, batch.requests, checks, batch.asked.permits, time);
    if (error == StoreError::Unexpected) {
        batch.isInDoubt = true;
        server.closeAsUnreliable();
    } else if (error == StoreError::TryAgain && isOfOverride(replyText(reply))) {
        if (checks.size() == 1) {
            readRecord(batch);
        } else {
            isolatedLogs_.addSlot(batch.hashSlot, nowMs());
            refuse(batch, error);
        }
        return;
    } else if (error != StoreError::None) {
        log_.failure(server.shownName(), "answered", replyText(reply));
        if (mayBeOfOneLog(error, replyText(reply))) {
            refuse(batch, error);
            return;
        }
    } else if (!checks.empty()) {
        if (batch.notesPermits) {
            learnPermits(server, batch.asked, checks, reply_);
        }
        const auto tell = [&](Waiter& waiter) {
            reply_.writeVerdicts(waiter.position, waiter.verdicts);
            waiter.loggedMs = reply_.loggedMs(waiter.position);
        };
        batch.waiters.forEach(tell);
        batch.orphans.forEach(tell);
        if (!store_.stamp(batch.algorithm).empty()) {
            tellSkew(server, batch);
        }
        learn(batch);
        noteAdmitted(server, batch.algorithm, reply_.admitted() * checks.size());
    }
    complete(batch, error);
}

/// As many requests that have ended may be given back.
void Decisions::noteAdmitted(Server& server, Algorithm algorithm, std::size_t logs) {
    ServerQueues& queues = queuesOf(server);
    if (traitsOf(algorithm).hasLeases && logs > 0) {
        queues.pace.admitted(logs);
        if (!queues.releases.isEmpty()) {
            store_.flushSoon();
        }
    }
}

/// The latest decision of a log can only be ahead of the clock of this node if the clock of another node is ahead of
/// it.
void Decisions::tellSkew(const Server& server, Batch& batch) {
    const std::int64_t ms = reply_.nowMs() - wallClockMs();
    if (ms <= 0 || batch.waiters.isEmpty()) {
        return;
    }
    const Check& shortest = *std::ranges::min_element(batch.waiters.front().checks, {}, &Check::windowMs);
    if (ms > shortest.windowMs / 10) {
        log_.clockIsBehind(server.shownName(), ms, nameIn(shortest.key.substr(settings_.prefix.len)));
    }
}

/// The last request of a batch is the one that is denied if any is.
void Decisions::learn(Batch& batch) {
    if (batch.waiters.isEmpty()) {
        return;
    }
    const Waiter& last = batch.waiters.back();
    const bool isDenied = !std::ranges::all_of(last.verdicts, &Verdict::hasRoom);
    if (!isDenied) {
        if (batch.refreshes) {
            knownDenials_.erase(batch.signature, last.checks);
        }
    } else if (std::ranges::none_of(last.checks, &Check::countsAll) && !traitsOf(batch.algorithm).hasLeases) {
        knownDenials_.publish(batch.signature, batch.generation, batch.sentAt, last.checks, last.verdicts);
    }
}

/// No reply will arrive.
void Decisions::lost(DecisionCall& call) {
    failed(call, StoreError::Down);
}

void Decisions::failed(DecisionCall& call, StoreError error) {
    for (Batch* batch : call.batches) {
        batch->isInDoubt = call.isOnWire || error == StoreError::Unexpected;
        complete(*batch, error);
    }
    calls_.recycle(call);
    store_.closeWhenUnused();
}

}  // namespace sliding_log
