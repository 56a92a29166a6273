#include "request/asking.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "request/deciding.hpp"
#include "request/giving_back.hpp"
#include "request/queue.hpp"
#include "request/round.hpp"
#include "request/stage.hpp"
#include "request/under_way.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

constexpr ngx_uint_t kLeft = NGX_HTTP_CLIENT_CLOSED_REQUEST;

// ---- how long the request may wait

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
           !worker().store(*redis).haveOneServer(checksOf(one).front().hashSlot, checksOf(other).front().hashSlot);
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

// ---- Open: which stage is asked next

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
        if ((next == nullptr || stage.order < next->order) && isToAsk(location, stage) &&
            !(isQueued && stage.order == Stage::Order::Queues && &stage != context.awaited.stage)) {
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
           worker().store(*redis).canBeAsked(checksOf(stage).front().hashSlot);
}

/// True if the record of its NAME decides a limit of the stage: it is its only one, unless that was written since.
bool isDecidedByName(const Stage& stage) {
    return std::ranges::any_of(checksOf(stage), &Check::isDecidedByName);
}

/// Before it is asked: a known denial or the record of a NAME decides it, else it gets its place in the order.
void lookAt(Stage& stage) {
    if (isDecidedByName(stage)) {
        decideByName(stage);
        return;
    }
    const RedisSettings* redis = redisOf(stage);
    if (!stage.context->round->isDryRun &&
        std::ranges::any_of(decisionsOf(stage), [](const Decision& each) { return each.settings->queues(); })) {
        stage.order = Stage::Order::Queues;
        return;
    }
    if (redis == nullptr) {
        stage.order = Stage::Order::Local;
        return;
    }
    RedisStore& store = worker().store(*redis);
    const DenialState denialState = store.known(checksOf(stage), verdictsOf(stage));
    if (denialState == DenialState::Holds) {
        decide(stage, Source::Cache);
    } else if (!store.isWell(checksOf(stage).front().hashSlot)) {
        stage.order = Stage::Order::Ill;
    } else {
        stage.order = denialState == DenialState::Due ? Stage::Order::Due : Stage::Order::Well;
    }
}

// ---- Out, and Replied

/// The wait has ended: the phases run again soon.
inline void resume(Context& context) {
    if (context.timer.timer_set) {
        ngx_del_timer(&context.timer);
    }
    context.state = Context::State::Replied;
    context.waited += nowMs() - context.askedAt;
    postEvent(context.request->connection->write);
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

/// What decided a stage that waited.
Source sourceOf(const Stage& stage) {
    return stage.permitted ? Source::Prefetch : stage.known ? Source::Cache : Source::Redis;
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

/// No store decides: the records of NAMEs do, or sliding_log_on_error.
void decideWithoutStore(const LocationSettings& location, Stage& stage) {
    const auto isOfName = [](const Check& check) { return check.ofName.decides(); };
    if (std::ranges::none_of(checksOf(stage), isOfName)) {
        decideInstead(location, stage);
    } else if (checksOf(stage).size() == 1) {
        decideByName(stage);
    } else {
        askApart(stage);
    }
}

/// Replied: what the reply, or its lack, means.
void useReply(const LocationSettings& location, Stage& stage) {
    if (stage.error == StoreError::None) {
        decide(stage, sourceOf(stage));
    } else if (stage.apart) {
        askApart(stage);
    } else {
        decideWithoutStore(location, stage);
    }
}

// ---- Open: a stage is asked

void ask(const LocationSettings& location, Stage& stage) {
    if (isDecidedByName(stage)) {
        checksOf(stage).size() == 1 ? decideByName(stage) : askApart(stage);
        return;
    }
    if (hasToQueue(location, stage)) {
        stage.state = Stage::State::Queued;
        return;
    }
    const RedisSettings* redis = redisOf(stage);
    if (redis == nullptr) {
        decideLocally(stage);
        return;
    }
    Context& context = *stage.context;
    useLeasesOfNow(*context.round, stage);
    stage.wake = noteReply;
    stage.verdicts = verdictsOf(stage);
    stage.permits = Prefetch::isFor(checksOf(stage)) ? permitsOf(stage) : std::span<Permit>();
    switch (worker().store(*redis).ask(checksOf(stage), context.round->unique.view(), leftOf(context), stage)) {
        case RedisStore::Reception::Pending:
            stage.state = Stage::State::Out;
            context.out++;
            break;
        case RedisStore::Reception::KnownDenied:
            decide(stage, Source::Cache);
            break;
        case RedisStore::Reception::Permitted:
            decide(stage, Source::Prefetch);
            break;
        case RedisStore::Reception::Unavailable:
            decideWithoutStore(location, stage);
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

/// Asks what is to be asked now. `isInTurn`: one that has to be waited for leaves the others open, for a while.
void askOpen(const LocationSettings& location, Context& context, bool isInTurn) {
    while (Stage* stage = nextToAsk(location, context)) {
        if (isInTurn && context.out > 0) {
            waitInTurn(location, context);
            return;
        }
        ask(location, *stage);
    }
}

// ---- the request waits

ngx_int_t waitForReplies(Context& context) {
    context.state = Context::State::Waiting;
    context.askedAt = nowMs();
    return NGX_AGAIN;
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

/// Queued: the request is denied in any case.
void stopWaiting(Stage& stage) {
    stage.state = Stage::State::Done;
    leaveQueue(stage);
}

/// Queued without being asked: those that waited for its place have left while other stages were asked.
bool mayAskAtOnce(const Stage& stage) {
    return std::ranges::none_of(decisionsOf(stage), &Decision::isDenied) && stage.context->awaited.stage != &stage &&
           !findsOthersWaiting(stage);
}

// ---- the request ends

/// Out: nobody waits for the reply any more. What Redis logs for it is taken back then, if it must not stay.
void cancelOut(Stage& stage) {
    Context& context = *stage.context;
    const bool mayHold = !context.round->isDryRun;
    const auto mayLeave = [&](const Check& each) { return each.leavesWithClient || (mayHold && each.delayMs > 0); };
    stage.state = Stage::State::Done;
    context.out--;
    for (Check& check : checksOf(stage)) {
        check.leavesWithClient = check.leavesWithClient || (context.refused && !check.countsAll);
    }
    if (std::ranges::any_of(checksOf(stage), mayLeave)) {
        worker().store(*redisOf(stage)).cancel(stage);
    } else {
        stage.detach();
    }
}

}  // namespace

void lookAhead(Context& context) {
    for (Stage& stage : context.round->allStages()) {
        if (stage.state == Stage::State::Open) {
            lookAt(stage);
        }
    }
}

ngx_int_t askAll(const LocationSettings& location, Context& context) {
    const bool isInTurn = context.out == 0 && !context.round->isEachAlone;
    for (;;) {
        askOpen(location, context, isInTurn);
        if (context.out > 0) {
            return waitForReplies(context);
        }
        Stage* queued = nextInQueue(context);
        if (queued == nullptr) {
            return NGX_OK;
        }
        if (context.refused || isDeniedUnknown(location, *context.round)) {
            stopWaiting(*queued);
        } else if (mayAskAtOnce(*queued)) {
            queued->state = Stage::State::Open;
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
            useReply(location, round.stages[i]);
        }
    }
}

void cancelStages(Context& context) {
    for (Stage& stage : context.round->allStages()) {
        if (stage.state == Stage::State::Replied && stage.error == StoreError::None) {
            decide(stage, sourceOf(stage));
        }
    }
    for (Stage& stage : context.round->allStages()) {
        if (stage.state == Stage::State::Out) {
            cancelOut(stage);
        }
    }
    if (context.refused) {
        takeBackDenied(context, context.round->all());
    }
    const auto isReserved = [](const Decision& each) {
        return (each.logged && each.delayMs() > 0) || each.queuedMs > 0;
    };
    const bool mayHold = !context.round->isDryRun;
    const bool isHeld =
        (mayHold && std::ranges::any_of(context.round->all(), isReserved)) || nextInQueue(context) != nullptr;
    takeBack(context, [&](const Round& of, const Decision& decision) {
        return isRefunded(decision, kLeft) || traitsOf(decision.settings->log->algorithm).countsUnderWay ||
               (isHeld && !context.upstreamWorkedSince(of));
    });
}

}  // namespace sliding_log
