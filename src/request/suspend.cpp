#include "request/suspend.hpp"

#include "redis/timer.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// The connection is writable, but there is no response yet. See ngx_http_limit_req_delay.
void onWrite(ngx_http_request_t* request) {
    ngx_event_t* write = request->connection->write;
    if (ngx_handle_write_event(write, 0) != NGX_OK) {
        ngx_http_finalize_request(request, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}

}  // namespace

ngx_int_t suspend(Context& context, ngx_msec_t until, ngx_event_handler_pt onTime) {
    ngx_http_request_t* request = context.request;
    ngx_event_t* read = request->connection->read;
    if (read->ready) {  // notices a client that has left already
        postEvent(read);
    } else if (ngx_handle_read_event(read, 0) != NGX_OK) {
        return NGX_ERROR;
    }
    request->read_event_handler = ngx_http_test_reading;
    request->write_event_handler = onWrite;
    context.timer.handler = onTime;
    context.timer.data = &context;
    context.timer.log = request->connection->log;
    ngx_add_timer(&context.timer, hasPassed(until) ? 0 : until - nowMs());
    return NGX_AGAIN;
}

void runAgain(Context& context, Context::State state) {
    if (context.timer.timer_set) {
        ngx_del_timer(&context.timer);
    }
    ngx_http_request_t* request = context.request;
    context.state = state;
    request->read_event_handler = ngx_http_block_reading;
    request->write_event_handler = ngx_http_core_run_phases;
    postEvent(request->connection->write);
}

}  // namespace sliding_log
