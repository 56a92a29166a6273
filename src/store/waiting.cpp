#include "store/waiting.hpp"

#include <algorithm>
#include <utility>

#include "this_process.hpp"

namespace sliding_log {

Waiting::Waiting(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, TakeBacks& takeBacks,
                 Refusals& refusals, ngx_log_t* nginxLog)
    : store_(store),
      settings_(settings),
      log_(log),
      takeBacks_(takeBacks),
      refusals_(refusals),
      deadline_(
          this, [](void* self) { static_cast<Waiting*>(self)->expire(); }, Timer::Kind::Work, nginxLog) {}

void Waiting::detachAll() {
    while (Waiter* waiter = waiters_.popFront()) {
        waiter->detach();
    }
}

std::size_t Waiting::tick() {
    std::size_t passing = orphans_.freeUnused();
    waiters_.forEach([&](const Waiter&) { passing++; });
    return passing;
}

void Waiting::add(Waiter& waiter, ngx_msec_t leftMs) {
    waiter.deadline = nowMs() + std::min(settings_.timeout, leftMs);
    watch(waiter);
    if (!deadline_.isSet() || (leftMs < settings_.timeout && &waiters_.front() == &waiter)) {
        deadline_.set(waiter.deadline - nowMs());
    }
}

void Waiting::serverLeaves(const Server& server) {
    waiters_.forEach([&](const Waiter& waiter) {
        if (waiter.batch->refusedBy == &server) {
            waiter.batch->refusal.clear();
        }
    });
}

void Waiting::stopIfEmpty() {
    if (waiters_.isEmpty()) {
        deadline_.cancel();
    }
}

void Waiting::watch(Waiter& waiter) {
    waiters_.insertSorted(
        waiter, [](const Waiter& left, const Waiter& right) { return isBefore(left.deadline, right.deadline); });
}

void Waiting::cancel(Waiter& waiter) {
    if (waiter.batch == nullptr || !waiter.batch->sent) {
        waiter.detach();
        return;
    }
    Orphan& orphan = orphanOf(waiter);
    for (const Check& check : orphan.ownChecks.all()) {
        if (check.leavesWithClient) {
            orphan.markLeaving(check.key);
        }
    }
    takeBacks_.expect();
    orphan.takesBack = true;
    watch(orphan);
}

/// The request continues without a reply, and may have been logged.
void Waiting::wakeWithoutReply(Waiter& waiter, StoreError error) {
    waiter.orphan = &orphanOf(waiter);
    waiter.wake(waiter, error);
    waiter.orphan = nullptr;
}

Orphan& Waiting::orphanOf(Waiter& waiter) {
    Orphan& orphan = orphans_.take();
    orphan.replace(waiter);
    return orphan;
}

/// Its batch has been answered. A reservation is taken back in all logs, since it is not used.
void Waiting::finish(Orphan& orphan, StoreError error) {
    const bool isInDoubt = orphan.batch->isInDoubt;
    const bool isAdmitted = error == StoreError::None && std::ranges::all_of(orphan.verdicts, &Verdict::hasRoom);
    const bool isHeld =
        isAdmitted && std::ranges::any_of(orphan.verdicts, [](const Verdict& each) { return each.delayMs > 0; });
    orphan.detach();
    if (orphan.late != nullptr) {
        // what an override allowed has no entry; beside it, those of other logs stay
        const bool isLogged = isAdmitted && !isHeld && std::ranges::none_of(orphan.verdicts, [](const Verdict& each) {
                                  return each.override.decides();
                              });
        orphan.late->state = isInDoubt  ? LateReply::State::Unknown
                             : isLogged ? LateReply::State::Logged
                                        : LateReply::State::Void;
        orphan.late->loggedMs = orphan.loggedMs;
    }
    const auto delayMs = static_cast<std::uint64_t>(orphan.verdicts.front().delayMs);
    const std::span<const Check> leavers = orphan.leavers(isHeld);
    if (isAdmitted && !leavers.empty()) {
        takeBacks_.add(leavers, orphan.unique, orphan.loggedMs, orphan.loggedMs - delayMs);
    } else if (isInDoubt) {
        takeBacks_.addUnseen(leavers, orphan.unique);
    }
    if (std::exchange(orphan.takesBack, false)) {
        takeBacks_.expected();
    }
    orphans_.recycle(orphan);
}

/// A batch in flight keeps its position until its reply arrives or the connection is closed.
void Waiting::expire() {
    while (!waiters_.isEmpty() && hasPassed(waiters_.front().deadline)) {
        Waiter& waiter = waiters_.front();
        const Batch& batch = *waiter.batch;
        store_.countersOf(batch.hashSlot).failed(StoreError::Timeout);
        Server* server = store_.topology().serverOf(batch.hashSlot);
        if (!batch.refusal.empty()) {
            refusals_.add(batch.refusedBy, batch.hashSlot, batch.refusal, nowMs());
            log_.failure(server == nullptr ? shownNameOf(settings_) : server->shownName(), "timed out", batch.refusal);
        } else if (server != nullptr) {
            server->timedOut(batch.sent ? batch.sentAt : waiter.deadline - settings_.timeout);
        } else {
            log_.failure(shownNameOf(settings_), "timed out", "no server to ask inside \"timeout\"");
        }
        if (waiter.isCancelled()) {
            static_cast<ListHook<WithDeadline>&>(waiter).unlink();
        } else if (batch.sent) {
            wakeWithoutReply(waiter, StoreError::Timeout);
        } else {
            waiter.detach();
            waiter.wake(waiter, StoreError::Timeout);
        }
    }
    store_.topology().forEachServer([](Server& server) { server.giveUpIfSilent(); });
    if (!waiters_.isEmpty()) {
        deadline_.set(waiters_.front().deadline - nowMs());
    }
    store_.closeWhenUnused();
}

void Waiting::takeBackLate(LateReply& late, std::span<const Check> checks, std::string_view unique) {
    switch (late.state) {
        case LateReply::State::Open:
            for (const Check& check : checks) {
                late.orphan->markLeaving(check.key);
            }
            if (!std::exchange(late.orphan->takesBack, true)) {
                takeBacks_.expect();
            }
            break;
        case LateReply::State::Logged:
            takeBacks_.add(checks, unique, late.loggedMs, late.loggedMs);
            break;
        case LateReply::State::Void:
            break;
        case LateReply::State::Unknown:
            takeBacks_.addUnseen(checks, unique);
            break;
    }
}

}  // namespace sliding_log
