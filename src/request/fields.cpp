#include "request/fields.hpp"

#include <exception>

#include "limit/calendar.hpp"
#include "limit/fields_text.hpp"
#include "limit/number.hpp"
#include "request/context.hpp"
#include "request/earlier_answer.hpp"
#include "request/refund.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

ngx_http_output_header_filter_pt gNextFilter;

/// Sets a field. Fields of this name from a proxied server are removed.
bool setField(ngx_http_request_t* request, std::string_view name, std::string_view value) {
    if (request->upstream != nullptr) {
        for (ngx_list_part_t* part = &request->headers_out.headers.part; part != nullptr; part = part->next) {
            auto* fields = static_cast<ngx_table_elt_t*>(part->elts);
            for (ngx_uint_t i = 0; i < part->nelts; i++) {
                if (fields[i].key.len == name.size() &&
                    ngx_strncasecmp(fields[i].key.data, toNgx(name).data, name.size()) == 0) {
                    fields[i].hash = 0;
                }
            }
        }
    }
    return addField(request, name, value);
}

bool setNumber(ngx_http_request_t* request, std::string_view name, std::int64_t number) {
    const std::string_view value = poolCopy(request->pool, DecimalText(number).view());
    return value.data() != nullptr && setField(request, name, value);
}

/// Calls visit(decision) for each limit that is enforced on the request, in the order of the configuration.
template <typename Visit>
void forEachDecision(const Round* round, Visit visit) {
    if (round != nullptr) {
        forEachDecision(round->previous, visit);
        for (std::size_t nth = 0; nth < round->count && !round->isDryRun; nth++) {
            visit(round->configured(nth));
        }
    }
}

/// The check of a decision, which must be in a round of the Context.
const Check& checkOf(const Context& context, const Decision& decision) {
    const Round* round = context.round;
    while (&decision < round->decisions || &decision >= round->decisions + round->count) {
        round = round->previous;
    }
    return round->checks[&decision - round->decisions];
}

/// The window, or the length of the current period.
std::int64_t windowMsNow(const LogSettings& log) {
    return traitsOf(log.algorithm).countsPeriods ? periodAt(wallClockMs(), log.windowMs).lengthMs() : log.windowMs;
}

/// It limits requests under way, which last as long as they do.
bool isAtOnce(const Decision& decision) {
    return traitsOf(decision.settings->log->algorithm).countsUnderWay;
}

/// The quota by which the request was decided: `on_error local nodes=N` divides limit and burst.
Quota quotaUsed(const Context& context, const Decision& decision) {
    const LimitSettings& settings = *decision.settings;
    if (isAtOnce(decision)) {
        return Quota::atOnce(decision.limit);
    }
    return quotaOf(decision.limit, settings.burst == 0 ? 0 : checkOf(context, decision).burst,
                   windowMsNow(*settings.log));
}

bool isAsConfigured(const Context& context, const Decision& decision) {
    const LimitSettings& settings = *decision.settings;
    const bool isConstant = settings.limitVariable == nullptr && windowMsNow(*settings.log) == settings.log->windowMs;
    return isConstant && decision.limit == settings.limit &&
           (settings.burst == 0 || checkOf(context, decision).burst == settings.burst);
}

/// A limit of 0 denies all requests, whatever is left in its bucket.
std::int64_t remainingOf(const Decision& decision) {
    return decision.limit == 0 ? 0 : decision.verdict->remaining;
}

/// RateLimit-Policy has what is allowed, RateLimit what the store says is left: after an error only the first is sent.
bool setIetfFields(ngx_http_request_t* request, const Context& context) {
    std::size_t capacity = 0;
    forEachDecision(context.round, [&](const Decision& decision) {
        capacity += fieldMemberCapacity(view(decision.settings->log->name));
    });
    auto* policy = static_cast<char*>(ngx_pnalloc(request->pool, 2 * capacity));
    if (policy == nullptr) {
        return false;
    }
    char* limit = policy + capacity;
    char* policyEnd = policy;
    char* limitEnd = limit;
    forEachDecision(context.round, [&](const Decision& decision) {
        const std::string_view name = view(decision.settings->log->name);
        if (isAsConfigured(context, decision)) {
            policyEnd = appendMember(policy, policyEnd, view(decision.settings->policy));
        } else if (decision.limit != Decision::kUnknownLimit) {
            policyEnd = appendPolicyMember(policy, policyEnd, name, quotaUsed(context, decision));
        }
        if (decision.verdict != nullptr) {
            limitEnd = appendLimitMember(limit, limitEnd, name, remainingOf(decision),
                                         isAtOnce(decision) ? kNoTime : decision.verdict->resetMs);
        }
    });
    const std::string_view policyText(policy, static_cast<std::size_t>(policyEnd - policy));
    const std::string_view limitText(limit, static_cast<std::size_t>(limitEnd - limit));
    return (policyText.empty() || setField(request, "RateLimit-Policy", policyText)) &&
           (limitText.empty() || setField(request, "RateLimit", limitText));
}

bool setLegacyFields(ngx_http_request_t* request, const Context& context) {
    const Verdict* verdict = context.enforced == nullptr ? nullptr : context.enforced->verdict;
    return verdict == nullptr || (setNumber(request, "X-RateLimit-Limit", quotaUsed(context, *context.enforced).most) &&
                                  setNumber(request, "X-RateLimit-Remaining", remainingOf(*context.enforced)) &&
                                  setNumber(request, "X-RateLimit-Reset", secondsUp(verdict->resetMs)));
}

bool setFields(ngx_http_request_t* request, const Context& context) {
    const auto wants = [&](Fields which) { return (context.fields & static_cast<ngx_uint_t>(which)) != 0; };
    return (!wants(Fields::Ietf) || setIetfFields(request, context)) &&
           (!wants(Fields::Legacy) || setLegacyFields(request, context)) &&
           (context.fields == static_cast<ngx_uint_t>(Fields::Off) || !context.denied || context.retryAfter == 0 ||
            setNumber(request, "Retry-After", context.retryAfter));
}

/// No cache keeps a denial, whose status they keep by themselves.
bool staysOutOfCaches(ngx_http_request_t* request, const Context& context) {
    return !context.denied || !isStoredByCaches(request->headers_out.status) || forbidStoring(request);
}

/// Called once per response, except that an error page of a filter passes again after the first header was cleared; the
/// context is then found through the pool.
ngx_int_t onHeader(ngx_http_request_t* request) noexcept try {
    Context* context = request == request->main ? Context::of(request) : nullptr;
    if (context == nullptr || context->round == nullptr) {
        return gNextFilter(request);
    }
    if (context->enforced != nullptr && !(setFields(request, *context) && staysOutOfCaches(request, *context))) {
        return NGX_ERROR;
    }
    const ngx_int_t rc = gNextFilter(request);
    noteHeaderSent(*context);
    return rc;
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_ERROR;
}

}  // namespace

void installFieldsFilter() {
    gNextFilter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = onHeader;
}

}  // namespace sliding_log
