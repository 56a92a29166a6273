#include "request/settle.hpp"

#include <span>

#include "request/hold.hpp"
#include "request/true_cost.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

/// Notes the cost of the request in its check; true if it differs from what the log has.
bool noteCost(const Decision& decision, Check& check) {
    if (!decision.logged || decision.trueCost == Check::kNotSettled || decision.trueCost == check.cost) {
        return false;
    }
    check.settled = decision.trueCost;
    return true;
}

/// Limits that were asked in one call are settled in one.
void settleTogether(const Round& round, std::size_t begin, std::size_t end) {
    const Decision& first = round.decisions[begin];
    const std::span<const Check> checks(round.checks + begin, end - begin);
    const std::uint64_t takenMs = first.loggedMs - static_cast<std::uint64_t>(first.delayMs());
    if (first.source == Source::Local) {
        worker().local().takeBack(checks, round.unique.view(), first.loggedMs, takenMs);
    } else {
        worker().store(*first.home).takeBack(checks, round.unique.view(), first.loggedMs, takenMs);
    }
}

void settle(const Round& round, const Stage& stage) {
    std::size_t begin = stage.begin;
    for (std::size_t limit = stage.begin; limit <= stage.end; limit++) {
        if (limit < stage.end && noteCost(round.decisions[limit], round.checks[limit])) {
            continue;
        }
        if (limit > begin) {
            settleTogether(round, begin, limit);
        }
        begin = limit + 1;
    }
}

/// The status of the answer to the client, as nginx would log it if there were no post_action: 499 if nothing was sent.
/// The request has another one, or, if the post_action could not begin, that of its error.
ngx_uint_t statusBefore(const Context& context) {
    const ngx_http_request_t* request = context.request;
    const bool isSent = request->header_sent != 0 && request->connection->sent > 0;
    return isSent ? context.sentStatus : NGX_HTTP_CLIENT_CLOSED_REQUEST;
}

}  // namespace

void noteCosts(Context& context) {
    if (!context.settles || context.knowsCosts) {
        return;
    }
    context.knowsCosts = true;
    ngx_http_request_t* request = context.request;
    const ngx_uint_t status = request->headers_out.status;
    const ngx_uint_t error = request->err_status;
    if (request->post_action != 0) {
        request->headers_out.status = statusBefore(context);
        request->err_status = 0;
    }
    for (const Round* round = context.round; round != nullptr; round = round->previous) {
        for (Decision& decision : round->all()) {
            if (decision.logged && decision.settings->settle != nullptr) {
                decision.trueCost = trueCost(context, *round, *decision.settings);
            }
        }
    }
    request->headers_out.status = status;
    request->err_status = error;
}

void settleAtEnd(Context& context) {
    if (!context.settles) {
        return;
    }
    cancel(context);  // what it is still held for, or asked, must not be settled
    noteCosts(context);
    for (const Round* round = context.round; round != nullptr; round = round->previous) {
        for (const Stage& stage : round->allStages()) {
            settle(*round, stage);
        }
    }
}

}  // namespace sliding_log
