#include "store/decisions.hpp"

#include <algorithm>

#include "store/server_queues.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// How long permits wait, after their life has ended, for calls that are sent anyway, in ms.
constexpr ngx_msec_t kReturnAfterMs = 20;

}  // namespace

Decisions::Decisions(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, KnownDenials& knownDenials,
                     Permits permits, std::uint64_t identity, IsolatedLogs& isolatedLogs, TakeBacks& takeBacks,
                     ngx_log_t* nginxLog)
    : store_(store),
      settings_(settings),
      log_(log),
      knownDenials_(knownDenials),
      identity_(identity),
      isolatedLogs_(isolatedLogs),
      takeBacks_(takeBacks),
      prefetch_(
          permits, identity,
          [this](const Check& check, std::uint32_t returned, std::string_view name, std::uint64_t loggedMs) {
              store_.countersOf(check.hashSlot).returnedPermits.add(returned);
              takeBacks_.add({&check, 1}, name, loggedMs, loggedMs - static_cast<std::uint64_t>(check.permitLifeMs));
          }),
      askAhead_(
          store, prefetch_, settings.timeout,
          [this](Server& server, const AskedPermits& asked, BatchReply& reply) {
              learnPermits(server, asked, asked.checks.all(), reply);
          },
          [this](const AskedPermits& asked, bool isInDoubt) { failPermits(asked, isInDoubt); }),
      batching_(*this, store, settings, knownDenials, prefetch_),
      waiting_(store, settings, log, takeBacks, refusals_, nginxLog),
      repeat_(
          this, [](void* self) { static_cast<Decisions*>(self)->repeatQueued(); }, Timer::Kind::Work, nginxLog),
      permitTimer_(
          this, [](void* self) { static_cast<Decisions*>(self)->endPermits(false); }, Timer::Kind::Chore, nginxLog) {}

void Decisions::loseAll() {
    while (Call* call = queued_.popFront()) {
        call->lost();
    }
}

std::size_t Decisions::tick() {
    writer_.freeMemory();
    reply_ = {};
    return calls_.freeUnused() + askAhead_.freeUnused() + batching_.freeUnused() + waiting_.tick();
}

void Decisions::serverDown(Server& server) {
    batching_.openAgain(server);
    batching_.openUnplaced();
}

void Decisions::serverLeaves(Server& server) {
    refusals_.erase(&server);
    waiting_.serverLeaves(server);
    batching_.openAgain(server);
}

Decisions::Reception Decisions::ask(std::span<const Check> checks, std::string_view unique, ngx_msec_t leftMs,
                                    Waiter& waiter) {
    waiter.permitted = waiter.known = false;
    if (!waiter.permits.empty() && prefetch_.use(checks, unique, waiter)) {
        if (prefetch_.asksAhead()) {
            store_.flushSoon();
        }
        return Reception::Permitted;
    }
    Signature& signature = signatureOf(checks);
    const DenialState denialState = knownDenials_.find(signature, checks, nowMs(), waiter.verdicts);
    if (denialState == DenialState::Holds) {
        return Reception::KnownDenied;
    }
    if (checks.size() > 1 && isolatedLogs_.areApart(checks, nowMs())) {
        return Reception::Apart;
    }
    const bool isLate = leftMs == 0;
    const bool canAsk = !isLate && store_.canBeAsked(checks.front().hashSlot);
    if (denialState == DenialState::Due && (!canAsk || !knownDenials_.claim(signature, checks, nowMs()))) {
        return Reception::KnownDenied;
    }
    if (!canAsk) {
        store_.countersOf(checks.front().hashSlot).failed(isLate ? StoreError::Timeout : StoreError::Down);
        return Reception::Unavailable;
    }
    if (!refusals_.isEmpty() && isTurnedAway(checks.front().hashSlot)) {
        store_.countersOf(checks.front().hashSlot).failed(StoreError::TryAgain);
        return denialState == DenialState::Due ? Reception::KnownDenied : Reception::Unavailable;
    }
    Batch& batch = batching_.batchFor(checks, signature);
    batch.requests++;
    batch.refreshes = batch.refreshes || denialState == DenialState::Due;
    batch.waiters.pushBack(waiter);
    waiter.batch = &batch;
    waiter.checks = checks;
    waiter.unique = unique;
    waiter.apart = false;
    waiting_.add(waiter, leftMs);
    return Reception::Pending;
}

DenialState Decisions::known(std::span<const Check> checks, std::span<Verdict> verdicts) {
    return knownDenials_.find(signatureOf(checks), checks, nowMs(), verdicts);
}

/// Good until the next one.
Signature& Decisions::signatureOf(std::span<const Check> checks) {
    latestSignature_.assign(identity_, checks);
    return latestSignature_;
}

bool Decisions::isTurnedAway(std::uint16_t hashSlot) {
    return refusals_.turnsAway(store_.topology().serverOf(hashSlot), hashSlot, nowMs(), randomNumber());
}

// ---- calls

void Decisions::flush(Server& server) {
    if (server.isDown()) {  // followers of batches that were in flight when it went down
        batching_.openAgain(server);
    }
    if (batching_.hasPermits()) {
        endPermits(false);  // so that they are returned together with what is sent anyway
    }
    batching_.beginTurn();
    takeBacks_.send(server);
    Batch* batch = nullptr;
    while (server.isReady() && (batch = batching_.nextToSend(server)) != nullptr) {
        DecisionCall& call = calls_.take(*this);
        writer_.begin(call, *batch, store_.stamp(batch->algorithm));
        bool isFull = false;
        for (; batch != nullptr && !isFull && writer_.hasRoomFor(*batch); batch = batching_.nextToSend(server)) {
            isFull = isolatedLogs_.areAlone(batch->waiters.front().checks, nowMs());
            if (isFull && !call.batches.empty()) {
                break;
            }
            batching_.sent(server, *batch);
            writer_.add(*batch);
        }
        writer_.finish();
        prefetch_.sendReturns();
        takeBacks_.send(server);
        server.send(call);
    }
}

void Decisions::askAhead() {
    if (prefetch_.asksAhead()) {
        batching_.notePermits();
        batching_.beginTurn();
        askAhead_.send(batching_.turnAt());
        prefetch_.sendReturns();
    }
}

void Decisions::complete(Batch& batch, StoreError error) {
    if (error != StoreError::None && !batch.asked.permits.empty()) {
        failPermits(batch.asked, batch.isInDoubt);
    }
    while (!batch.waiters.isEmpty()) {
        Waiter& waiter = batch.waiters.front();
        if (error != StoreError::None && !waiter.apart) {
            store_.countersOf(batch.hashSlot).failed(error);
        }
        if (batch.isInDoubt) {
            waiting_.wakeWithoutReply(waiter, error);
        } else {
            waiter.detach();
            waiter.wake(waiter, error);
        }
    }
    while (Waiter* orphan = batch.orphans.popFront()) {
        waiting_.finish(static_cast<Orphan&>(*orphan), error);
    }
    batching_.finish(batch);
}

/// The server refuses the batch because of one of its logs. With several logs it is not known which: the requests ask
/// each separately, and count when that one is refused.
void Decisions::refuse(Batch& batch, StoreError error) {
    const std::span<const Check> logs =
        batch.waiters.isEmpty() ? std::span<const Check>() : batch.waiters.front().checks;
    if (logs.size() > 1) {
        batch.waiters.forEach([](Waiter& waiter) { waiter.apart = true; });
    } else if (!logs.empty() && error == StoreError::Forbidden) {
        isolatedLogs_.addName(logs.front().key, nowMs());
    } else if (!logs.empty()) {
        isolatedLogs_.addLog(logs.front().key, nowMs());
    }
    complete(batch, error);
}

// ---- permits

void Decisions::learnPermits(Server& server, const AskedPermits& asked, std::span<const Check> checks,
                             BatchReply& reply) {
    server.counters().permits.add(prefetch_.learn(asked, checks, reply));
    store_.noteQuit();
    if (store_.isQuitting()) {
        endPermits(true);  // of a call that was in flight then
    } else if (const auto endMs = prefetch_.nextEndMs(); endMs && !permitTimer_.isSet()) {
        permitTimer_.set(static_cast<ngx_msec_t>(*endMs) + kReturnAfterMs);
    }
}

void Decisions::endPermits(bool all) {
    prefetch_.endLots(all);
    if (const auto endMs = prefetch_.nextEndMs()) {
        permitTimer_.set(static_cast<ngx_msec_t>(*endMs) + kReturnAfterMs);
    }
}

/// The permits that a call asked for may have been logged, and nobody will use them.
void Decisions::failPermits(const AskedPermits& asked, bool isInDoubt) {
    prefetch_.fail(asked);
    if (!isInDoubt) {
        return;
    }
    const std::span<const Check> checks = asked.checks.all();
    for (std::size_t i = 0; i < checks.size(); i++) {
        Check check = checks[i];
        check.cost *= asked.of(i);
        check.delayMs = check.permitLifeMs;  // so far ahead are the entries
        if (check.cost > 0) {
            takeBacks_.addUnseen({&check, 1}, asked.name.view());
        }
    }
}

}  // namespace sliding_log
