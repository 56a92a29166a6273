#include "request/queue.hpp"

#include <algorithm>
#include <limits>
#include <ranges>

#include "request/overriding.hpp"
#include "request/suspend.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

auto limitsOf(const Stage& stage) {
    return std::views::iota(stage.begin, stage.end);
}

/// True if a request that this limit denies may wait, unless it can never be admitted.
bool isWaitable(const Round& round, std::size_t limit) {
    return !round.isDryRun && round.decisions[limit].settings->queues() && round.checks[limit].cost > 0;
}

bool isWaitedFor(const Round& round, std::size_t limit) {
    const Check& check = round.checks[limit];
    const bool mayHaveRoom = check.hasOverride || !check.neverHasRoom();
    return isWaitable(round, limit) && mayHaveRoom &&
           worker().queues().isWaitedFor(worker().identityOf(round.decisions[limit].home), check.key);
}

/// The limit decides by its log, and not that the request can never be admitted.
bool isOfRoom(const Decision& decision) {
    return decision.verdict != nullptr && decision.source != Source::Override &&
           decision.verdict->retryMs != Verdict::kNever;
}

/// Nobody knows whether the entry is in the log, where it would deny the request itself.
bool isInDoubt(const Stage& stage) {
    const Round& round = *stage.context->round;
    return std::ranges::any_of(limitsOf(stage),
                               [&](std::size_t limit) { return round.decisions[limit].lateReply != nullptr; });
}

/// The limit that is to be waited for: the first one that denies, or for which others wait. These may have left since
/// they were found, by another worker: then the first one that may be waited for.
std::size_t limitToWaitFor(const Stage& stage) {
    const Round& round = *stage.context->round;
    const auto limits = limitsOf(stage);
    auto found = std::ranges::find_if(limits, [&](std::size_t limit) { return round.decisions[limit].isDenied(); });
    if (found == limits.end()) {
        found = std::ranges::find_if(limits, [&](std::size_t limit) { return isWaitedFor(round, limit); });
    }
    if (found == limits.end()) {
        found = std::ranges::find_if(limits, [&](std::size_t limit) { return isWaitable(round, limit); });
    }
    return *found;
}

/// How long it may be waited for.
ngx_msec_t timeFor(const Stage& stage) {
    const Round& round = *stage.context->round;
    const auto denies = [&](std::size_t limit) { return round.decisions[limit].isDenied(); };
    const bool isAsked = std::ranges::any_of(limitsOf(stage), denies);
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t limit : limitsOf(stage)) {
        if (isAsked ? denies(limit) : isWaitable(round, limit)) {
            shortest = std::min(shortest, round.decisions[limit].settings->delayMs);
        }
    }
    return static_cast<ngx_msec_t>(shortest);
}

/// The number of such requests that the limit would still admit. Where it denies for another reason than that it has no
/// room, those behind shall ask, too.
std::int64_t roomOf(const Round& round, std::size_t limit) {
    const Decision& decision = round.decisions[limit];
    if (!isOfRoom(decision)) {
        return Queues::kRoomForAll;
    }
    return std::max<std::int64_t>(decision.verdict->remaining, 0) / round.checks[limit].cost;
}

void join(AwaitedPlace& awaited, std::size_t limit) {
    const Round& round = *awaited.context->round;
    const RedisSettings* redis = round.decisions[limit].home;
    awaited.limit = limit;
    worker().queues().join(awaited, worker().identityOf(redis), round.checks[limit].key);
    if (redis != nullptr) {
        worker().store(*redis).stayConnected();
    }
}

void leave(AwaitedPlace& awaited, std::optional<std::int64_t> room) {
    const RedisSettings* redis = awaited.context->round->decisions[awaited.limit].home;
    worker().queues().leave(awaited, room);
    if (redis != nullptr) {
        worker().store(*redis).letGo();
    }
}

/// The stage was asked in vain. If the limit that was waited for has room, and another one has not, that one is waited
/// for from now on: those behind shall not wait for it.
void goOnWaiting(AwaitedPlace& awaited, const Stage& stage) {
    const Round& round = *awaited.context->round;
    if (round.decisions[awaited.limit].isDenied()) {
        worker().queues().askedInVain(awaited);
        return;
    }
    leave(awaited, roomOf(round, awaited.limit));
    join(awaited, limitToWaitFor(stage));
}

}  // namespace

bool findsOthersWaiting(const Stage& stage) {
    const Round& round = *stage.context->round;
    return std::ranges::any_of(limitsOf(stage), [&](std::size_t limit) { return isWaitedFor(round, limit); });
}

bool mayWait(const Stage& stage) {
    const Context& context = *stage.context;
    const Round& round = *context.round;
    const AwaitedPlace& awaited = context.awaited;
    const bool hasTime = awaited.stage != &stage || !hasPassed(awaited.until);
    return hasTime && !context.refused && !isInDoubt(stage) &&
           std::ranges::all_of(limitsOf(stage), [&](std::size_t limit) {
               const Decision& decision = round.decisions[limit];
               return !decision.isDenied() || (isWaitable(round, limit) && isOfRoom(decision));
           });
}

ngx_int_t waitForPlace(Stage& stage) {
    Context& context = *stage.context;
    AwaitedPlace& awaited = context.awaited;
    if (awaited.stage == &stage) {
        goOnWaiting(awaited, stage);
    } else {
        leaveQueue(context, std::nullopt);
        awaited.context = &context;
        awaited.stage = &stage;
        awaited.limit = stage.begin;
        awaited.since = nowMs();
        awaited.until = nowMs() + timeFor(stage);
        awaited.ask = [](Applicant& applicant) {
            runAgain(*static_cast<AwaitedPlace&>(applicant).context, Context::State::Turn);
        };
        join(awaited, limitToWaitFor(stage));
    }
    context.state = Context::State::Queued;
    return suspend(context, context.awaited.until,
                   [](ngx_event_t* timer) { runAgain(*static_cast<Context*>(timer->data), Context::State::Turn); });
}

bool takeTurn(Context& context) {
    Stage& stage = *context.awaited.stage;
    const Round& round = *context.round;
    context.state = Context::State::Idle;
    context.waited = 0;
    if (!hasPassed(context.awaited.until)) {
        for (std::size_t limit : limitsOf(stage)) {
            Check& check = round.checks[limit];
            Decision& decision = round.decisions[limit];
            check.limit = decision.configuredLimit;
            obeyRecordOfName(decision, check);
            decision.limit = check.limit;
        }
        stage.state = Stage::State::Open;
        return true;
    }
    Decision& decision = round.decisions[context.awaited.limit];
    if (decision.verdict == nullptr) {  // it was never its turn
        constexpr std::int64_t kAgainMs = 1000;
        round.verdicts[context.awaited.limit] = {.remaining = 0, .resetMs = kAgainMs, .retryMs = kAgainMs};
        decision.verdict = &round.verdicts[context.awaited.limit];
    }
    return false;
}

void leaveQueue(Stage& stage) {
    Context& context = *stage.context;
    if (context.awaited.stage == &stage) {
        leaveQueue(context, roomOf(*context.round, context.awaited.limit));
    }
}

void leaveQueue(Context& context, std::optional<std::int64_t> room) {
    AwaitedPlace& awaited = context.awaited;
    if (awaited.stage == nullptr) {
        return;
    }
    awaited.stage = nullptr;
    const auto waitedMs = static_cast<std::int64_t>(nowMs() - awaited.since);
    context.round->decisions[awaited.limit].queuedMs = std::max<std::int64_t>(waitedMs, 1);
    if (awaited.isWaiting()) {
        leave(awaited, room);
    }
}

}  // namespace sliding_log
