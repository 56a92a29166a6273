#include "request/hold.hpp"

#include <exception>

#include "request/asking.hpp"
#include "request/under_way.hpp"

namespace sliding_log {

namespace {

void onDue(ngx_event_t* timer) {
    auto& context = *static_cast<Context*>(timer->data);
    ngx_http_request_t* request = context.request;
    context.state = Context::State::Due;
    request->read_event_handler = ngx_http_block_reading;
    request->write_event_handler = ngx_http_core_run_phases;
    ngx_post_event(request->connection->write, &ngx_posted_events);
}

/// The connection is writable, but there is no response yet. See ngx_http_limit_req_delay.
void onWrite(ngx_http_request_t* request) {
    ngx_event_t* write = request->connection->write;
    if (ngx_handle_write_event(write, 0) != NGX_OK) {
        ngx_http_finalize_request(request, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}

void detachLateReplies(const Context& context) {
    for (LateReply* lateReply = context.lateReplies; lateReply != nullptr; lateReply = lateReply->next) {
        lateReply->detach();
    }
}

}  // namespace

ngx_int_t hold(Context& context) {
    context.state = Context::State::Held;  // first of all: if this fails, cancel() gives the reservation back
    ngx_http_request_t* request = context.request;
    ngx_event_t* read = request->connection->read;
    if (read->ready) {  // notices a client that has left already
        ngx_post_event(read, &ngx_posted_events);
    } else if (ngx_handle_read_event(read, 0) != NGX_OK) {
        return NGX_ERROR;
    }
    request->read_event_handler = ngx_http_test_reading;
    request->write_event_handler = onWrite;
    context.timer.handler = onDue;
    context.timer.data = &context;
    context.timer.log = request->connection->log;
    ngx_add_timer(&context.timer, context.dueAt - ngx_current_msec);
    return NGX_AGAIN;
}

void cancel(Context& context) noexcept try {
    if (context.timer.timer_set) {
        ngx_del_timer(&context.timer);
    }
    switch (context.state) {
        case Context::State::Waiting:
        case Context::State::Replied:
            cancelStages(context);
            break;
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
