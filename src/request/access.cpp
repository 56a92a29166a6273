#include "request/access.hpp"

#include <algorithm>
#include <exception>

#include "request/asking.hpp"
#include "request/counting.hpp"
#include "request/hold.hpp"
#include "request/outcome.hpp"
#include "request/round.hpp"

namespace sliding_log {

namespace {

const LocationSettings& settingsOf(ngx_http_request_t* request) {
    return *static_cast<const LocationSettings*>(ngx_http_get_module_loc_conf(request, ngx_http_sliding_log_module));
}

/// What was logged in a dry run only, and is enforced in the latest round, is asked again there: without what the dry
/// run has logged.
void takeBackRehearsed(Context& context) {
    const Round& latest = *context.round;
    if (latest.isDryRun || latest.previous == nullptr) {
        return;
    }
    takeBack(context, [&](const Round& round, const Decision& decision) {
        return round.isDryRun && std::ranges::find(latest.all(), decision.settings->log, [](const Decision& each) {
                                     return each.settings->log;
                                 }) != latest.all().end();
    });
}

ngx_int_t deny(ngx_http_request_t* request, const LocationSettings& location, Context& context,
               const Outcome& outcome) {
    takeBackDenied(context);
    logOutcome(request, location, outcome);
    if (context.round->isDryRun) {
        for (Decision& each : context.round->all()) {
            each.logged = false;  // what count=all keeps is a denied attempt, which no answer refunds
            each.late = nullptr;
        }
        context.status = Status::RejectedDryRun;
        return NGX_DECLINED;
    }
    context.status = Status::Rejected;
    context.denied = true;
    context.retryAfter = outcome.retryAfter;
    ngx_http_finalize_request(request, static_cast<ngx_int_t>(outcome.status));
    return NGX_DONE;
}

ngx_int_t admit(ngx_http_request_t* request, const LocationSettings& location, Context& context,
                const Outcome& outcome) {
    if (outcome.decider->delayMs() == 0) {
        context.status = context.status == Status::None ? Status::Passed : context.status;
        return NGX_DECLINED;
    }
    logOutcome(request, location, outcome);
    if (context.round->isDryRun) {
        context.status = Status::DelayedDryRun;
        return NGX_DECLINED;
    }
    context.status = Status::Delayed;
    return hold(context);
}

/// Of several rounds, the one is told of that denied or delayed last, else the one with the least remaining.
void tell(const Decision*& told, const Outcome& outcome) {
    const bool isNotable = outcome.status != 0 || outcome.decider->delayMs() > 0;
    if (isNotable || told == nullptr || remainsLess(*outcome.decider, *told)) {
        told = outcome.decider;
    }
}

ngx_int_t conclude(ngx_http_request_t* request, const LocationSettings& location, Context& context) {
    const Outcome outcome = judge(location, *context.round);
    countDecisions(location, *context.round, outcome.status == 0);
    tell(context.decider, outcome);
    if (!context.round->isDryRun) {
        tell(context.enforced, outcome);
    }
    return outcome.status != 0 ? deny(request, location, context, outcome) : admit(request, location, context, outcome);
}

ngx_int_t handle(ngx_http_request_t* request) {
    const LocationSettings& location = settingsOf(request);
    if (location.limits->nelts == 0 || request->post_action) {
        return NGX_DECLINED;  // a post_action comes when the client has been answered
    }
    Context* context = Context::of(request);
    switch (context == nullptr ? Context::State::Idle : context->state) {
        case Context::State::Waiting:
        case Context::State::Held:
            return NGX_AGAIN;  // another event of the connection
        case Context::State::Due:
            context->state = Context::State::Idle;
            return NGX_DECLINED;
        case Context::State::Answered:
            takeAnswers(location, *context);
            break;
        case Context::State::Idle:
            if (context != nullptr && context->denied) {
                return NGX_DECLINED;  // the error page of a denial is free
            }
            if (const ngx_int_t begun = beginRound(request, location, context); begun != NGX_OK) {
                return begun;
            }
            takeBackRehearsed(*context);
            if (context->round->stageCount > 1) {
                lookAhead(*context);
            }
            break;
    }
    return askAll(location, *context) ? conclude(request, location, *context) : NGX_AGAIN;
}

}  // namespace

ngx_int_t onAccess(ngx_http_request_t* request) noexcept try {
    return handle(request);
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    if (Context* context = Context::of(request)) {
        leave(*context);
    }
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

}  // namespace sliding_log
