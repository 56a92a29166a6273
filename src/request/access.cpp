#include "request/access.hpp"

#include <algorithm>
#include <exception>
#include <span>

#include "request/answer.hpp"
#include "request/asking.hpp"
#include "request/counting.hpp"
#include "request/giving_back.hpp"
#include "request/hold.hpp"
#include "request/outcome.hpp"
#include "request/round.hpp"
#include "request/under_way.hpp"

namespace sliding_log {

namespace {

const LocationSettings& settingsOf(ngx_http_request_t* request) {
    return *static_cast<const LocationSettings*>(ngx_http_get_module_loc_conf(request, ngx_http_sliding_log_module));
}

/// Limits that a dry run has logged, and that the latest round enforces, are asked again there. What the dry run logged
/// is taken back first.
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
    takeBackDenied(context, context.round->all());
    logOutcome(request, location, outcome, false);
    context.status = Result::Rejected;
    context.denied = true;
    context.retryAfter = outcome.retryAfter;
    ngx_http_finalize_request(request, answerDenied(request, location, *context.round, outcome));
    return NGX_DONE;
}

ngx_int_t admit(ngx_http_request_t* request, const LocationSettings& location, Context& context,
                const Outcome& outcome) {
    if (!outcome.decider->isDelayed()) {
        context.status = context.status.value_or(Result::Passed);
        return NGX_DECLINED;
    }
    context.status = Result::Delayed;
    if (context.dueAt != 0) {
        logOutcome(request, location, outcome, false);
        return hold(context);
    }
    const Decision& queued = *std::ranges::max_element(context.round->all(), {}, &Decision::queuedMs);
    if (queued.queuedMs > 0) {
        logOutcome(request, location, {&queued, 0, 0}, false);
    }
    return NGX_DECLINED;
}

bool isNotable(const Outcome& outcome) {
    return outcome.status != 0 || outcome.decider->isDelayed();
}

/// Of several rounds, the variables show the one that denied or delayed last, otherwise the one with the least
/// remaining.
void tell(const Decision*& told, const Outcome& outcome) {
    if (isNotable(outcome) || told == nullptr || remainsLess(*outcome.decider, *told)) {
        told = outcome.decider;
    }
}

/// Called when all limits are decided, or those that are asked before a hold, and again after it.
ngx_int_t enforce(ngx_http_request_t* request, const LocationSettings& location, Context& context) {
    const Round& round = *context.round;
    const Outcome outcome = judge(location, round.all());
    countDecisions(location, round, round.all(), outcome.status == 0);
    if (context.enforced == nullptr) {
        context.status.reset();  // a dry run before this round decides nothing
    }
    tell(context.enforced, outcome);
    context.decider = context.enforced;
    if (outcome.status == 0) {
        beginLeases(location, *context.round, round.all());
    }
    return outcome.status != 0 ? deny(request, location, context, outcome) : admit(request, location, context, outcome);
}

/// The variables describe a dry run if nothing is enforced. A denial goes before a delay, and that before an admission.
void tellOfDryRun(Context& context, const Outcome& outcome) {
    if (context.enforced != nullptr) {
        return;
    }
    if (outcome.status != 0) {
        context.decider = outcome.decider;
        context.status = Result::RejectedDryRun;
    } else if (outcome.decider->delayMs() > 0 && context.status != Result::RejectedDryRun) {
        context.decider = outcome.decider;
        context.status = Result::DelayedDryRun;
    } else if (context.status.value_or(Result::Passed) == Result::Passed) {
        tell(context.decider, outcome);
        context.status = Result::Passed;
    }
}

/// The outcome of these limits together is logged and counted, and has no other effect.
void rehearse(ngx_http_request_t* request, const LocationSettings& location, Context& context,
              std::span<Decision> together) {
    const Outcome outcome = judge(location, together);
    countDecisions(location, *context.round, together, outcome.status == 0);
    if (isNotable(outcome)) {
        logOutcome(request, location, outcome, true);
    }
    if (outcome.status != 0) {
        takeBackDenied(context, together);
        for (Decision& each : together) {
            each.logged = false;  // what count=all keeps is a denied request, which is not refunded
            each.lateReply = nullptr;
        }
    } else {
        beginLeases(location, *context.round, together);
    }
}

ngx_int_t conclude(ngx_http_request_t* request, const LocationSettings& location, Context& context) {
    const Round& round = *context.round;
    if (!round.isDryRun) {
        return enforce(request, location, context);
    }
    tellOfDryRun(context, judge(location, round.all()));
    const std::size_t together = round.isEachAlone ? 1 : round.count;
    for (std::size_t begin = 0; begin < round.count; begin += together) {
        rehearse(request, location, context, round.all().subspan(begin, together));
    }
    return NGX_DECLINED;
}

ngx_int_t askRound(ngx_http_request_t* request, const LocationSettings& location, Context& context) {
    const ngx_int_t rc = askAll(location, context);
    return rc == NGX_OK ? conclude(request, location, context) : rc;
}

/// NGX_DECLINED: the request continues.
ngx_int_t beginAndAsk(ngx_http_request_t* request, const LocationSettings& location, LimitSet rehearsed, bool isDryRun,
                      Context*& context) {
    if (const ngx_int_t begun = beginRound(request, location, rehearsed, isDryRun, context); begun != NGX_OK) {
        return begun;
    }
    context->rehearsed = rehearsed;
    takeBackRehearsed(*context);
    if (context->round->stageCount > 1) {
        lookAhead(*context);
    }
    return askRound(request, location, *context);
}

/// A post_action begins after the response, or when the client has left, for which the request may have waited.
void endWait(ngx_http_request_t* request) {
    Context* context = Context::of(request);
    if (context != nullptr && context->state != Context::State::Idle) {
        cancel(*context);
    }
}

/// The limits that the location enforces are asked first, those of requests under way when a reservation is due. Its
/// dry run follows when they have admitted the request.
ngx_int_t handle(ngx_http_request_t* request) {
    const LocationSettings& location = settingsOf(request);
    if (request->post_action) {
        endWait(request);
        return NGX_DECLINED;
    }
    if (location.limits->nelts == 0) {
        return NGX_DECLINED;
    }
    Context* context = Context::of(request);
    ngx_int_t rc = NGX_DECLINED;
    LimitSet rehearsed = context == nullptr ? LimitSet() : context->rehearsed;
    switch (context == nullptr ? Context::State::Idle : context->state) {
        case Context::State::Waiting:
        case Context::State::Queued:
        case Context::State::Held:
            return NGX_AGAIN;  // another event of the connection
        case Context::State::Due:
            rc = endHold(*context) ? askRound(request, location, *context) : NGX_DECLINED;
            break;
        case Context::State::Turn:
            askAgain(*context);
            rc = askRound(request, location, *context);
            break;
        case Context::State::Replied:
            collectVerdicts(location, *context);
            if (context->round->isDryRun) {
                return askRound(request, location, *context);
            }
            rc = askRound(request, location, *context);
            break;
        case Context::State::Idle:
            if (context != nullptr && context->denied) {
                return NGX_DECLINED;  // the error page of a denied request is not limited
            }
            rehearsed = rehearsedIn(request, location, context);
            rc = beginAndAsk(request, location, rehearsed, false, context);
            break;
    }
    return rc == NGX_DECLINED && rehearsed.any() ? beginAndAsk(request, location, rehearsed, true, context) : rc;
}

}  // namespace

ngx_int_t onAccess(ngx_http_request_t* request) noexcept try {
    return handle(request);
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    if (Context* context = Context::of(request)) {
        cancel(*context);
    }
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

}  // namespace sliding_log
