#include "request/hold.hpp"

#include <exception>

#include "request/asking.hpp"
#include "request/queue.hpp"
#include "request/suspend.hpp"
#include "request/under_way.hpp"

namespace sliding_log {

namespace {

void detachLateReplies(const Context& context) {
    for (LateReply* lateReply = context.lateReplies; lateReply != nullptr; lateReply = lateReply->next) {
        lateReply->detach();
    }
}

}  // namespace

ngx_int_t hold(Context& context) {
    context.state = Context::State::Held;  // first of all: if this fails, cancel() gives the reservation back
    return suspend(context, context.dueAt,
                   [](ngx_event_t* timer) { runAgain(*static_cast<Context*>(timer->data), Context::State::Due); });
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
        case Context::State::Queued:
        case Context::State::Turn:
        case Context::State::Held:
        case Context::State::Due:
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
