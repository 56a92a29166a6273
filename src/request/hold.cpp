#include "request/hold.hpp"

#include <algorithm>
#include <exception>

#include "request/asking.hpp"
#include "request/giving_back.hpp"
#include "request/queue.hpp"
#include "request/stage.hpp"
#include "request/suspend.hpp"
#include "request/under_way.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

void detachLateReplies(const Context& context) {
    for (LateReply* lateReply = context.lateReplies; lateReply != nullptr; lateReply = lateReply->next) {
        lateReply->detach();
    }
}

/// Calls visit(store) for each stage that is asked after the hold.
template <typename Visit>
void forEachStoreAfterHold(const Context& context, Visit visit) {
    for (const Stage& stage : context.round->allStages()) {
        const RedisSettings* redis = redisOf(stage);
        if (stage.isAfterHold && stage.state != Stage::State::Done && redis != nullptr) {
            visit(worker().store(*redis));
        }
    }
}

void letGo(const Context& context) {
    forEachStoreAfterHold(context, [](RedisStore& store) { store.letGo(); });
}

}  // namespace

ngx_int_t hold(Context& context) {
    context.state = Context::State::Held;  // first of all: if this fails, cancel() gives the reservation back
    forEachStoreAfterHold(context, [](RedisStore& store) { store.stayConnected(); });
    return suspend(context, context.dueAt,
                   [](ngx_event_t* timer) { runAgain(*static_cast<Context*>(timer->data), Context::State::Due); });
}

bool endHold(Context& context) {
    letGo(context);
    context.state = Context::State::Idle;
    context.dueAt = 0;
    return std::ranges::any_of(context.round->allStages(), [](const Stage& stage) {
        return stage.isAfterHold && stage.state != Stage::State::Done;
    });
}

void cancel(Context& context) noexcept try {
    if (context.timer.timer_set) {
        ngx_del_timer(&context.timer);
    }
    if (context.round != nullptr) {
        leaveQueue(context, std::nullopt);
    }
    switch (context.state) {
        case Context::State::Waiting:
        case Context::State::Replied:
            cancelStages(context);
            break;
        case Context::State::Held:
        case Context::State::Due:
            letGo(context);
            [[fallthrough]];
        case Context::State::Queued:
        case Context::State::Turn:
            takeBack(context, [&](const Round& round, const Decision&) { return !context.upstreamWorkedSince(round); });
            break;
        case Context::State::Idle:
            if (context.out > 0) {  // an exception ended the asking
                cancelStages(context);
            }
            break;
    }
    context.state = Context::State::Idle;
    detachLateReplies(context);
} catch (const std::exception& e) {
    detachLateReplies(context);
    for (Stage& stage : context.round->allStages()) {
        stage.detach();
    }
    context.out = 0;
    context.state = Context::State::Idle;
    ngx_log_error(NGX_LOG_ALERT, context.request->connection->log, 0, "sliding_log: %s", e.what());
}

void cancelRequest(void* context) noexcept {
    endLeases(*static_cast<Context*>(context));
    cancel(*static_cast<Context*>(context));
}

}  // namespace sliding_log
