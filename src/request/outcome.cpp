#include "request/outcome.hpp"

#include <algorithm>

#include "limit/calendar.hpp"
#include "limit/source.hpp"
#include "limit/time_text.hpp"

namespace sliding_log {

namespace {

/// Rounded up to whole seconds, as Retry-After, if it is at least one second.
std::int64_t readableMs(std::int64_t ms) {
    return ms < 1000 ? ms : secondsUp(ms) * 1000;
}

/// True if the left limit denies longer. When the longest denial has ended, all other limits have room, too.
bool deniesLonger(const Decision& left, const Decision& right) {
    if (left.verdict->retryMs == Verdict::kNever || right.verdict->retryMs == Verdict::kNever) {
        return right.verdict->retryMs != Verdict::kNever;
    }
    return left.verdict->retryMs > right.verdict->retryMs;
}

/// A limit either reserves or lets requests wait for a place.
bool delaysLonger(const Decision& left, const Decision& right) {
    return std::max(left.delayMs(), left.queuedMs) > std::max(right.delayMs(), right.queuedMs);
}

}  // namespace

bool remainsLess(const Decision& left, const Decision& right) {
    if (left.verdict == nullptr || right.verdict == nullptr) {
        return left.verdict == nullptr && right.verdict != nullptr;
    }
    return left.verdict->remaining < right.verdict->remaining;
}

std::int64_t retryAfterOf(const Decision& decision) {
    if (decision.source == Source::Error) {
        return decision.limit == 0 ? 0 : 1;
    }
    const bool isNever = decision.verdict == nullptr || decision.verdict->retryMs == Verdict::kNever;
    return isNever ? 0 : retryAfterSeconds(decision.verdict->retryMs);
}

Outcome judge(const LocationSettings& location, std::span<const Decision> decisions) {
    const Decision* invalid = nullptr;
    const Decision* denier = nullptr;
    const Decision* unknown = nullptr;
    const Decision* holder = nullptr;
    const Decision* least = &decisions.front();
    for (const Decision& decision : decisions) {
        if (decision.source == Source::Invalid) {
            invalid = &decision;
        } else if (decision.isDenied() && (denier == nullptr || deniesLonger(decision, *denier))) {
            denier = &decision;
        }
        if (decision.source == Source::Error && (unknown == nullptr || decision.limit == 0)) {
            unknown = &decision;
        }
        if (decision.isDelayed() && (holder == nullptr || delaysLonger(decision, *holder))) {
            holder = &decision;
        }
        if (remainsLess(decision, *least)) {
            least = &decision;
        }
    }
    const auto denialStatus = [&](const Decision& decision) {
        return decision.settings->excess == Excess::Drop ? NGX_HTTP_CLOSE : location.status;
    };
    if (invalid != nullptr) {
        return {invalid, denialStatus(*invalid), 0};
    }
    if (denier != nullptr) {
        return {denier, denialStatus(*denier), retryAfterOf(*denier)};
    }
    if (unknown != nullptr && unknown->limit == 0) {
        return {unknown, denialStatus(*unknown), 0};
    }
    if (unknown != nullptr && location.onError != static_cast<ngx_uint_t>(OnError::Allow)) {
        return {unknown, NGX_HTTP_SERVICE_UNAVAILABLE, retryAfterOf(*unknown), true};
    }
    return {holder == nullptr ? least : holder, 0, 0};
}

void logOutcome(ngx_http_request_t* request, const LocationSettings& location, const Outcome& outcome, bool isDryRun) {
    const Decision& decision = *outcome.decider;
    const bool isDenied = outcome.status != 0;
    const ngx_uint_t level = isDenied || location.logLevel == NGX_LOG_INFO ? location.logLevel : location.logLevel + 1;
    ngx_log_t* log = request->connection->log;
    if (log->log_level < level || decision.source == Source::Invalid) {  // Invalid: logged when it was evaluated
        return;
    }
    const LogSettings& settings = *decision.settings->log;
    const char* what = isDenied ? "limiting requests" : "delaying request";
    const char* dryRun = isDryRun ? ", dry run" : "";
    const ngx_str_t key = toNgx(shownKey(decision));
    if (decision.source == Source::Error) {
        ngx_log_error(level, log, 0, "%s%s, by limit \"%V\": key \"%V\", store unavailable", what, dryRun,
                      &settings.name, &key);
        return;
    }
    const std::int64_t waitMs = isDenied ? decision.verdict->retryMs : decision.delayMs();
    const bool isNever = waitMs == Verdict::kNever;
    const bool isBlocked =
        isDenied && !isNever && decision.settings->blockMs > 0 && decision.source != Source::Override;
    const TimeText window(settings.windowMs);
    if (traitsOf(settings.algorithm).countsUnderWay && (!isDenied || decision.source != Source::Override)) {
        const TimeText queued(readableMs(decision.queuedMs));
        const ngx_str_t texts[] = {toNgx(decision.queuedMs > 0 ? queued.view() : ""), toNgx(nameOf(decision.source))};
        ngx_log_error(level, log, 0, "%s%s, by limit \"%V\": key \"%V\", %L at once%s%V, by %V", what, dryRun,
                      &settings.name, &key, decision.limit, decision.queuedMs > 0 ? ", waited " : "", &texts[0],
                      &texts[1]);
        return;
    }
    const bool isPeriod = traitsOf(settings.algorithm).countsPeriods;
    const TimeText wait(readableMs(std::max<std::int64_t>(waitMs, 0)));
    const ngx_str_t texts[] = {toNgx(isPeriod ? nameOfPeriod(settings.windowMs) : window.view()),
                               toNgx(isNever ? "" : wait.view()), toNgx(nameOf(decision.source))};
    ngx_log_error(level, log, 0, "%s%s, by limit \"%V\": key \"%V\", %L in %s%V%s%s%V, by %V", what, dryRun,
                  &settings.name, &key, decision.limit, isPeriod ? "this " : "", &texts[0],
                  isBlocked ? ", blocked" : "", isNever ? "" : ", next in ", &texts[1], &texts[2]);
}

}  // namespace sliding_log
