#include "request/settle.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "limit/most_cost.hpp"
#include "limit/number.hpp"
#include "request/hold.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

void tellInvalid(const ngx_http_request_t* request, const LogSettings& log, ngx_str_t text, const char* what) {
    if (gWorker->counters(log).mayTellOfInvalid(ngx_current_msec)) {
        const std::int64_t most = mostCost(log.algorithm, log.sample);
        ngx_log_error(NGX_LOG_ERR, request->connection->log, 0,
                      "limit \"%V\": invalid \"settle\" value \"%V\", expected a whole number from 0 to %L, %s",
                      &log.name, &text, most, what);
    }
}

/// True if the text has digits only.
bool isWhole(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The cost that settle= gives; kNotSettled if it gives none. A number that is too large is as much as a log takes, so
/// that nothing is cheaper because it is huge.
std::int64_t settledCost(ngx_http_request_t* request, const LimitSettings& settings) {
    const LogSettings& log = *settings.log;
    ngx_str_t text;
    if (ngx_http_complex_value(request, settings.settle, &text) != NGX_OK || text.len == 0) {
        return Check::kNotSettled;
    }
    const std::int64_t most = mostCost(log.algorithm, log.sample);
    const std::optional<std::int64_t> number = parseCount(view(text));
    if (!number && !isWhole(view(text))) {
        tellInvalid(request, log, text, "the cost stands");
        return Check::kNotSettled;
    }
    if (!number || *number > most) {
        tellInvalid(request, log, text, "the largest is taken");
        return most;
    }
    return *number;
}

/// Notes the cost of the request in its check; true if it differs from what the log has.
bool noteCost(ngx_http_request_t* request, const Decision& decision, Check& check) {
    if (!decision.logged || decision.settings->settle == nullptr) {
        return false;
    }
    const std::int64_t cost = settledCost(request, *decision.settings);
    if (cost == Check::kNotSettled || cost == check.cost) {
        return false;
    }
    check.settled = cost;
    return true;
}

/// Limits that were asked in one call are settled in one.
void settleTogether(const Round& round, std::size_t begin, std::size_t end) {
    const Decision& first = round.decisions[begin];
    const std::span<const Check> checks(round.checks + begin, end - begin);
    const std::uint64_t takenMs = first.loggedMs - static_cast<std::uint64_t>(first.delayMs());
    if (first.source == Source::Local) {
        gWorker->local().takeBack(checks, round.unique.view(), first.loggedMs, takenMs);
    } else {
        gWorker->store(*first.settings->log->redis).takeBack(checks, round.unique.view(), first.loggedMs, takenMs);
    }
}

void settle(ngx_http_request_t* request, const Round& round, const Stage& stage) {
    std::size_t begin = stage.begin;
    for (std::size_t limit = stage.begin; limit <= stage.end; limit++) {
        if (limit < stage.end && noteCost(request, round.decisions[limit], round.checks[limit])) {
            continue;
        }
        if (limit > begin) {
            settleTogether(round, begin, limit);
        }
        begin = limit + 1;
    }
}

}  // namespace

void settleAtEnd(Context& context) {
    if (!context.settles) {
        return;
    }
    cancel(context);  // what it is still held for, or asked, must not be settled
    for (const Round* round = context.round; round != nullptr; round = round->previous) {
        for (const Stage& stage : round->allStages()) {
            settle(context.request, *round, stage);
        }
    }
}

}  // namespace sliding_log
