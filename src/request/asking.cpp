#include "request/asking.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "request/overriding.hpp"
#include "request/queue.hpp"
#include "request/round.hpp"
#include "request/under_way.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

constexpr ngx_uint_t kLeft = NGX_HTTP_CLIENT_CLOSED_REQUEST;

std::span<Check> checksOf(const Stage& stage) {
    return {stage.context->round->checks + stage.begin, stage.end - stage.begin};
}

std::span<Decision> decisionsOf(const Stage& stage) {
    return {stage.context->round->decisions + stage.begin, stage.end - stage.begin};
}

std::span<Verdict> verdictsOf(const Stage& stage) {
    return {stage.context->round->verdicts + stage.begin, stage.end - stage.begin};
}

std::span<Permit> permitsOf(const Stage& stage) {
    const Round& round = *stage.context->round;
    return round.permits == nullptr ? std::span<Permit>()
                                    : std::span(round.permits + stage.begin, stage.end - stage.begin);
}

/// nullptr: the local store.
const RedisSettings* redisOf(const Stage& stage) {
    return decisionsOf(stage).front().settings->log->redis;
}

/// True if limits are to be asked before those that are asked after a hold, or it is to come.
bool isBeforeHold(const Context& context) {
    return context.dueAt != 0 || std::ranges::any_of(context.round->allStages(), [](const Stage& each) {
               return !each.isAfterHold && each.state != Stage::State::Done;
           });
}

/// True if both are in Redis, and not decided by one server.
bool areOfTwoServers(const Stage& one, const Stage& other) {
    const RedisSettings* redis = redisOf(one);
    if (redis == nullptr || redisOf(other) == nullptr) {
        return false;
    }
    return redis != redisOf(other) ||
           !gWorker->store(*redis).haveOneServer(checksOf(one).front().hashSlot, checksOf(other).front().hashSlot);
}

/// True if a server that does not reply before the hold would leave no time for another one.
bool needsTimeAfterHold(const Context& context) {
    const std::span<Stage> all = context.round->allStages();
    return context.round->mayHold && isBeforeHold(context) && std::ranges::any_of(all, [&](const Stage& later) {
               return later.isAfterHold && std::ranges::any_of(all, [&](const Stage& earlier) {
                          return !earlier.isAfterHold && areOfTwoServers(earlier, later);
                      });
           });
}

/// How long the request may still wait. Limits in a dry run leave half of it for those that are enforced later, and
/// limits that are asked before a hold leave it for those that are asked after it.
ngx_msec_t leftOf(const Context& context) {
    const ngx_msec_t left = context.longest - std::min(context.longest, context.waited);
    return context.round->isDryRun || needsTimeAfterHold(context) ? (left + 1) / 2 : left;
}

/// The wait has ended: the phases run again soon.
inline void resume(Context& context) {
    if (context.timer.timer_set) {
        ngx_del_timer(&context.timer);
    }
    context.state = Context::State::Replied;
    context.waited += ngx_current_msec - context.askedAt;
    ngx_post_event(context.request->connection->write, &ngx_posted_events);
}

/// Redis may have logged the request, or may log it later.
void noteLateReply(Stage& stage, Orphan& orphan) {
    Context& context = *stage.context;
    void* memory = ngx_palloc(context.request->pool, sizeof(LateReply));
    if (memory == nullptr) {
        return;
    }
    auto* lateReply = new (memory) LateReply(orphan);
    lateReply->next = context.lateReplies;
    context.lateReplies = lateReply;
    for (Decision& decision : decisionsOf(stage)) {
        decision.lateReply = lateReply;
    }
}

/// The result of a store: noted here, used when the phases run again. Called from callbacks of Redis, where no request
/// may run.
void noteReply(Waiter& waiter, StoreError error) {
    auto& stage = static_cast<Stage&>(waiter);
    Context& context = *stage.context;
    stage.state = Stage::State::Replied;
    stage.error = error;
    if (stage.orphan != nullptr) {
        noteLateReply(stage, *stage.orphan);
    }
    context.out--;
    const bool isToDivide = error != StoreError::None && stage.apart;  // its limits are asked while others are out
    if ((context.out == 0 || isToDivide) && context.state == Context::State::Waiting) {
        resume(context);
    }
}

/// A reservation must not be used early: both clocks truncate milliseconds, and the time of the event loop may be late.
void noteReservation(Context& context, const Verdict& verdict) {
    if (verdict.delayMs == 0) {
        return;
    }
    ngx_time_update();
    const ngx_msec_t dueAt = ngx_current_msec + static_cast<ngx_msec_t>(verdict.delayMs) + 1;
    const bool isLater = context.dueAt == 0 || isBefore(context.dueAt, dueAt);
    context.dueAt = isLater ? dueAt : context.dueAt;
}

/// A limit of the round has denied the request. So all do, unless each limit is decided alone.
void noteDenial(Context& context) {
    context.refused = context.refused || !context.round->isEachAlone;
}

/// Nobody knows when a request that is under way ends: clients shall ask again in a second.
void tellNoTime(const Decision& decision, Verdict& verdict) {
    constexpr std::int64_t kMs = 1000;
    verdict.resetMs = kMs;
    if (verdict.retryMs > 0 && decision.source != Source::Override) {
        verdict.retryMs = kMs;
    }
}

/// Sets the decisions of the stage from its verdicts.
void takeVerdicts(Stage& stage, Source source) {
    Context& context = *stage.context;
    const Round& round = *context.round;
    bool denied = false;
    for (std::size_t i = stage.begin; i < stage.end; i++) {
        Decision& decision = round.decisions[i];
        decision.source = source;
        decision.verdict = &round.verdicts[i];
        decision.loggedMs = stage.loggedMs;
        if (source == Source::Local || source == Source::Prefetch) {
            round.verdicts[i].override = {};  // they know none; it may be that of a known denial that is over
        } else if (round.checks[i].hasOverride) {
            applyOverride(context.request, *context.round, i);
        }
        if (traitsOf(round.checks[i].algorithm).countsUnderWay) {
            tellNoTime(decision, round.verdicts[i]);
        }
        denied = denied || decision.isDenied();
    }
    if (denied && mayWait(stage)) {
        stage.state = Stage::State::Queued;
        return;
    }
    stage.state = Stage::State::Done;
    leaveQueue(stage);
    if (denied) {
        noteDenial(context);
    }
    for (std::size_t i = stage.begin; !denied && i < stage.end; i++) {
        round.decisions[i].logged = round.decisions[i].source != Source::Override;
        if (!round.isDryRun) {
            noteReservation(context, round.verdicts[i]);
        }
    }
}

/// What decided a stage that waited.
Source sourceOf(const Stage& stage) {
    return stage.permitted ? Source::Prefetch : stage.known ? Source::Cache : Source::Redis;
}

/// No store could decide.
void noteUnknown(Stage& stage) {
    stage.state = Stage::State::Done;
    for (Decision& decision : decisionsOf(stage)) {
        decision.source = Source::Error;
        decision.verdict = nullptr;  // it may have been denied before it waited
    }
    leaveQueue(stage);
}

/// Asks the local store for the stage.
void askLocally(Stage& stage) {
    useLeasesOfNow(*stage.context->round, stage);
    if (gWorker->local().ask(checksOf(stage), verdictsOf(stage), stage.context->round->unique.view(), stage.loggedMs)) {
        takeVerdicts(stage, Source::Local);
        return;
    }
    noteUnknown(stage);
}

/// Reduces the limits and the bursts of the stage to the share of this node, rounded up.
void takeShare(const Stage& stage, std::int64_t nodes) {
    const auto shareOf = [nodes](std::int64_t whole) { return (whole + nodes - 1) / nodes; };
    const std::span<Check> checks = checksOf(stage);
    const std::span<Decision> decisions = decisionsOf(stage);
    for (std::size_t i = 0; i < checks.size(); i++) {
        checks[i].limit = decisions[i].limit = shareOf(checks[i].limit);
        checks[i].burst = shareOf(checks[i].burst);
    }
}

/// Decides without the Redis, as sliding_log_on_error says.
void decideInstead(const LocationSettings& location, Stage& stage) {
    if (location.onError == static_cast<ngx_uint_t>(OnError::Local)) {
        takeShare(stage, static_cast<std::int64_t>(location.nodes));
        gWorker->store(*redisOf(stage)).countLocally(checksOf(stage).front());
        askLocally(stage);
        return;
    }
    noteUnknown(stage);
    if (location.onError == static_cast<ngx_uint_t>(OnError::Deny)) {
        noteDenial(*stage.context);
    }
}

/// Each limit of the stage is asked in a call of its own.
void askApart(Stage& stage) {
    Context& context = *stage.context;
    if (context.awaited.stage == &stage) {
        leaveQueue(context, std::nullopt);
    }
    divide(context, stage);
    lookAhead(context);
}

void collectVerdict(const LocationSettings& location, Stage& stage) {
    if (stage.error == StoreError::None) {
        takeVerdicts(stage, sourceOf(stage));
    } else if (stage.apart) {
        askApart(stage);
    } else {
        decideInstead(location, stage);
    }
}

/// True if a limit that no store could decide denies the request, whatever the other limits decide.
bool isDeniedUnknown(const LocationSettings& location, const Round& round) {
    return !round.isEachAlone && location.onError != static_cast<ngx_uint_t>(OnError::Allow) &&
           std::ranges::any_of(round.all(), [](const Decision& each) { return each.source == Source::Error; });
}

/// True if the stage still has to be asked. Once the request is denied, only stages with count=all have to be. Inlined,
/// since it is called several times for each request.
[[gnu::always_inline]] inline bool isToAsk(const LocationSettings& location, const Stage& stage) {
    const Context& context = *stage.context;
    return stage.state == Stage::State::Open && !(stage.isAfterHold && isBeforeHold(context)) &&
           (!(context.refused || isDeniedUnknown(location, *context.round)) ||
            std::ranges::any_of(checksOf(stage), &Check::countsAll));
}

/// The one that is waited for goes first: its request is in a queue.
Stage* nextInQueue(const Context& context) {
    if (Stage* awaited = context.awaited.stage; awaited != nullptr && awaited->state == Stage::State::Queued) {
        return awaited;
    }
    const auto all = context.round->allStages();
    const auto queued = std::ranges::find(all, Stage::State::Queued, &Stage::state);
    return queued == all.end() ? nullptr : &*queued;
}

/// The stage to be asked next; nullptr if there is none. Places are taken in one order, the same on all nodes: a
/// request that waits for one has none of the stages behind it, for which others may wait.
Stage* nextToAsk(const LocationSettings& location, const Context& context) {
    const bool isQueued = nextInQueue(context) != nullptr;
    Stage* next = nullptr;
    for (Stage& stage : context.round->allStages()) {
        if ((next == nullptr || stage.turn < next->turn) && isToAsk(location, stage) &&
            !(isQueued && stage.turn == Stage::Turn::Queues && &stage != context.awaited.stage)) {
            next = &stage;
        }
    }
    return next;
}

/// A request waits behind others, unless no answer is to be expected: sliding_log_on_error decides then.
bool hasToQueue(const LocationSettings& location, const Stage& stage) {
    if (stage.context->awaited.stage == &stage || !findsOthersWaiting(stage)) {
        return false;
    }
    const RedisSettings* redis = redisOf(stage);
    return redis == nullptr || location.onError == static_cast<ngx_uint_t>(OnError::Local) ||
           gWorker->store(*redis).canBeAsked(checksOf(stage).front().hashSlot);
}

void ask(const LocationSettings& location, Stage& stage) {
    if (hasToQueue(location, stage)) {
        stage.state = Stage::State::Queued;
        return;
    }
    const RedisSettings* redis = redisOf(stage);
    if (redis == nullptr) {
        askLocally(stage);
        return;
    }
    Context& context = *stage.context;
    useLeasesOfNow(*context.round, stage);
    stage.wake = noteReply;
    stage.verdicts = verdictsOf(stage);
    stage.permits = Prefetch::isFor(checksOf(stage)) ? permitsOf(stage) : std::span<Permit>();
    switch (gWorker->store(*redis).ask(checksOf(stage), context.round->unique.view(), leftOf(context), stage)) {
        case RedisStore::Reception::Pending:
            stage.state = Stage::State::Out;
            context.out++;
            break;
        case RedisStore::Reception::KnownDenied:
            takeVerdicts(stage, Source::Cache);
            break;
        case RedisStore::Reception::Permitted:
            takeVerdicts(stage, Source::Prefetch);
            break;
        case RedisStore::Reception::Unavailable:
            decideInstead(location, stage);
            break;
        case RedisStore::Reception::Apart:
            askApart(stage);
            break;
    }
}

/// Stages are open while one is out: they are all asked when it has taken its share of the time. So a store that does
/// not reply leaves time for the others.
void waitInTurn(const LocationSettings& location, Context& context) {
    const auto open = static_cast<ngx_msec_t>(
        std::ranges::count_if(context.round->allStages(), [&](const Stage& each) { return isToAsk(location, each); }));
    context.timer.handler = [](ngx_event_t* timer) { resume(*static_cast<Context*>(timer->data)); };
    context.timer.data = &context;
    context.timer.log = context.request->connection->log;
    ngx_add_timer(&context.timer, leftOf(context) / (open + 1));
}

/// The request waits for a place. What it has taken of other logs is renewed meanwhile.
ngx_int_t waitInQueue(const LocationSettings& location, Stage& stage) {
    for (const Stage& each : stage.context->round->allStages()) {
        if (each.state == Stage::State::Done) {
            beginLeases(location, *stage.context->round, decisionsOf(each));
        }
    }
    return waitForPlace(stage);
}

/// Takes back entries that one call has logged or may still log. `first`: a copy of the first of their decisions,
/// before it was changed. `permits`: of the checks, if permits admitted them.
void takeBackTogether(std::string_view unique, const Decision& first, std::span<const Check> checks,
                      const Permit* permits) {
    const RedisSettings* redis = first.settings->log->redis;
    if (first.lateReply != nullptr) {
        gWorker->store(*redis).takeBackLate(*first.lateReply, checks, unique);
    }
    if (!first.logged) {
        return;
    }
    const std::uint64_t takenMs = first.loggedMs - static_cast<std::uint64_t>(first.delayMs());
    if (first.source == Source::Prefetch) {
        for (std::size_t i = 0; i < checks.size(); i++) {
            gWorker->store(*redis).takeBackPermit(checks[i], permits[i]);
        }
    } else if (first.source == Source::Local) {
        gWorker->local().takeBack(checks, unique, first.loggedMs, takenMs);
    } else {
        gWorker->store(*redis).takeBack(checks, unique, first.loggedMs, takenMs);
    }
}

}  // namespace

void lookAhead(Context& context) {
    for (Stage& stage : context.round->allStages()) {
        if (stage.state != Stage::State::Open) {
            continue;
        }
        const RedisSettings* redis = redisOf(stage);
        if (!context.round->isDryRun &&
            std::ranges::any_of(decisionsOf(stage), [](const Decision& each) { return each.settings->queues(); })) {
            stage.turn = Stage::Turn::Queues;
            continue;
        }
        if (redis == nullptr) {
            stage.turn = Stage::Turn::Local;
            continue;
        }
        RedisStore& store = gWorker->store(*redis);
        const DenialState denialState = store.known(checksOf(stage), verdictsOf(stage));
        if (denialState == DenialState::Holds) {
            takeVerdicts(stage, Source::Cache);
        } else if (!store.isWell(checksOf(stage).front().hashSlot)) {
            stage.turn = Stage::Turn::Ill;
        } else {
            stage.turn = denialState == DenialState::Due ? Stage::Turn::Due : Stage::Turn::Well;
        }
    }
}

ngx_int_t askAll(const LocationSettings& location, Context& context) {
    const bool isInTurn = context.out == 0 && !context.round->isEachAlone;
    while (true) {
        while (Stage* stage = nextToAsk(location, context)) {
            if (isInTurn && context.out > 0) {
                waitInTurn(location, context);
                break;
            }
            ask(location, *stage);
        }
        if (context.out > 0) {
            context.state = Context::State::Waiting;
            context.askedAt = ngx_current_msec;
            return NGX_AGAIN;
        }
        Stage* queued = nextInQueue(context);
        if (queued == nullptr) {
            return NGX_OK;
        }
        const bool isAsked = std::ranges::any_of(decisionsOf(*queued), &Decision::isDenied);
        if (context.refused || isDeniedUnknown(location, *context.round)) {
            queued->state = Stage::State::Done;
            leaveQueue(*queued);
        } else if (!isAsked && context.awaited.stage != queued && !findsOthersWaiting(*queued)) {
            queued->state = Stage::State::Open;  // they have left while other stages were asked
        } else {
            return waitInQueue(location, *queued);
        }
    }
}

void askAgain(Context& context) {
    Stage& stage = *context.awaited.stage;
    if (!takeTurn(context)) {
        stage.state = Stage::State::Done;
        leaveQueue(context, std::nullopt);
        noteDenial(context);
    }
}

void collectVerdicts(const LocationSettings& location, Context& context) {
    context.state = Context::State::Idle;
    const Round& round = *context.round;
    for (std::size_t i = 0; i < round.stageCount; i++) {  // which may grow
        if (round.stages[i].state == Stage::State::Replied) {
            collectVerdict(location, round.stages[i]);
        }
    }
}

void cancelStages(Context& context) {
    const bool mayHold = !context.round->isDryRun;
    const auto mayLeave = [&](const Check& each) { return each.leavesWithClient || (mayHold && each.delayMs > 0); };
    for (Stage& stage : context.round->allStages()) {
        if (stage.state == Stage::State::Replied && stage.error == StoreError::None) {
            takeVerdicts(stage, sourceOf(stage));
        }
    }
    for (Stage& stage : context.round->allStages()) {
        if (stage.state != Stage::State::Out) {
            continue;
        }
        stage.state = Stage::State::Done;
        context.out--;
        for (Check& check : checksOf(stage)) {
            check.leavesWithClient = check.leavesWithClient || (context.refused && !check.countsAll);
        }
        if (std::ranges::any_of(checksOf(stage), mayLeave)) {
            gWorker->store(*redisOf(stage)).cancel(stage);
        } else {
            stage.detach();
        }
    }
    if (context.refused) {
        takeBackDenied(context, context.round->all());
    }
    const auto isReserved = [](const Decision& each) {
        return (each.logged && each.delayMs() > 0) || each.queuedMs > 0;
    };
    const bool isHeld =
        (mayHold && std::ranges::any_of(context.round->all(), isReserved)) || nextInQueue(context) != nullptr;
    takeBack(context, [&](const Round& of, const Decision& decision) {
        return isRefunded(decision, kLeft) || traitsOf(decision.settings->log->algorithm).countsUnderWay ||
               (isHeld && !context.upstreamWorkedSince(of));
    });
}

void takeBackDenied(Context& context, std::span<const Decision> together) {
    const bool isDryRun = context.round->isDryRun;
    const auto isOneOfThem = [&](const Decision& decision) {
        return &decision >= together.data() && &decision < together.data() + together.size();
    };
    takeBack(context, [&](const Round& round, const Decision& decision) {
        const bool isConcerned = isDryRun ? isOneOfThem(decision) : !context.upstreamWorkedSince(round);
        return isConcerned && !decision.settings->countsAll;
    });
}

void takeBackMarked(Context& context) {
    for (Round* round = context.round; round != nullptr; round = round->previous) {
        endMarkedLeases(*round);
        for (const Stage& stage : round->allStages()) {
            for (std::size_t begin = stage.begin, end = 0; begin < stage.end; begin = std::max(end, begin + 1)) {
                const Decision first = round->decisions[begin];
                end = begin;
                while (end < stage.end && round->decisions[end].isLeaving &&
                       round->decisions[end].logged == first.logged) {
                    Decision& each = round->decisions[end];
                    round->verdicts[end].remaining += each.logged ? round->checks[end].cost : 0;
                    each.isLeaving = each.logged = false;
                    each.lateReply = nullptr;
                    end++;
                }
                if (end > begin) {
                    takeBackTogether(round->unique.view(), first, {round->checks + begin, end - begin},
                                     round->permits == nullptr ? nullptr : round->permits + begin);
                }
            }
        }
    }
}

}  // namespace sliding_log
