#include "request/queue.hpp"

#include <algorithm>
#include <ranges>

#include "request/suspend.hpp"
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
           gWorker->queues().isWaitedFor(gWorker->identityOf(*round.decisions[limit].settings->log), check.key);
}

/// Nobody knows whether the entry is in the log, where it would deny the request itself.
bool isInDoubt(const Stage& stage) {
    const Round& round = *stage.context->round;
    return std::ranges::any_of(limitsOf(stage),
                               [&](std::size_t limit) { return round.decisions[limit].lateReply != nullptr; });
}

void join(Stage& stage) {
    Context& context = *stage.context;
    const Round& round = *context.round;
    const auto denies = [&](std::size_t limit) { return round.decisions[limit].isDenied(); };
    const bool isAsked = std::ranges::any_of(limitsOf(stage), denies);
    ngx_msec_t longest = NGX_MAX_INT_T_VALUE;
    AwaitedPlace& awaited = context.awaited;
    awaited.context = &context;
    awaited.stage = &stage;
    awaited.limit = stage.end;
    for (std::size_t limit : limitsOf(stage)) {
        if (isAsked ? denies(limit) : isWaitable(round, limit)) {
            awaited.limit = std::min(awaited.limit, limit);
            longest = std::min(longest, static_cast<ngx_msec_t>(round.decisions[limit].settings->delayMs));
        }
    }
    if (!isAsked) {
        const auto waitedFor =
            std::ranges::find_if(limitsOf(stage), [&](std::size_t limit) { return isWaitedFor(round, limit); });
        awaited.limit = waitedFor != limitsOf(stage).end() ? *waitedFor : awaited.limit;  // all may have left since
    }
    awaited.since = ngx_current_msec;
    awaited.until = ngx_current_msec + longest;
    awaited.ask = [](Applicant& applicant) {
        runAgain(*static_cast<AwaitedPlace&>(applicant).context, Context::State::Turn);
    };
    const Decision& decision = round.decisions[awaited.limit];
    const LogSettings& log = *decision.settings->log;
    gWorker->queues().join(awaited, gWorker->identityOf(log), round.checks[awaited.limit].key);
    if (log.redis != nullptr) {
        gWorker->store(*log.redis).stayConnected();
    }
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
               return !decision.isDenied() || (isWaitable(round, limit) && decision.source != Source::Override &&
                                               decision.verdict->retryMs != Verdict::kNever);
           });
}

ngx_int_t waitForPlace(Stage& stage) {
    Context& context = *stage.context;
    if (context.awaited.stage != &stage) {
        join(stage);
    } else {
        gWorker->queues().askedInVain(context.awaited);
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
            round.checks[limit].limit = round.decisions[limit].limit = round.leases[limit].wholeLimit;
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

void leaveQueue(Context& context, std::int64_t room) {
    AwaitedPlace& awaited = context.awaited;
    if (awaited.stage == nullptr) {
        return;
    }
    awaited.stage = nullptr;
    Decision& decision = context.round->decisions[awaited.limit];
    decision.queuedMs = std::max<std::int64_t>(static_cast<std::int64_t>(ngx_current_msec - awaited.since), 1);
    if (awaited.isWaiting()) {
        gWorker->queues().leave(awaited, room);
        if (const RedisSettings* redis = decision.settings->log->redis) {
            gWorker->store(*redis).letGo();
        }
    }
}

}  // namespace sliding_log
