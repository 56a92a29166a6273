#include "conf/limit_completion.hpp"

#include <algorithm>
#include <string>

#include "conf/limit_values.hpp"
#include "limit/most_cost.hpp"
#include "limit/number.hpp"

namespace sliding_log {

namespace {

/// A constant cost that can never be admitted is an error, unless a limit of 0 denies all requests on purpose.
char* checkCost(ngx_conf_t* cf, const LimitDraft& draft) {
    const LimitSettings& limit = draft.limit;
    const DecimalText cost(limit.cost);
    const std::int64_t most = mostCost(draft.log.algorithm, draft.log.sample);
    if (limit.cost > most) {
        std::string expected("at most ");
        expected.append(DecimalText(most).view()).append(" with algorithm=");
        expected.append(nameOf(draft.log.algorithm)).append(", which keeps an entry for each");
        if (takes(draft.log.algorithm, Parameter::Sample)) {
            expected.append(" ").append(DecimalText(draft.log.sample).view());
        }
        if (rowOf(draft.log.algorithm).storage == Storage::Zset && takes(draft.log.algorithm, Parameter::Window)) {
            expected.append(": algorithm=compact takes any");
        }
        return refuseValue(cf, Parameter::Cost, cost.view(), expected);
    }
    const bool deniesAll = limit.limitVariable == nullptr && limit.limit == 0;
    const bool isKnown = limit.burst > 0 || limit.limitVariable == nullptr;
    const std::int64_t allowed = limit.burst > 0 ? limit.burst : limit.limit;
    if (isKnown && !deniesAll && limit.cost > allowed) {
        return refuseValue(cf, Parameter::Cost, cost.view(),
                           std::string("at most ")
                               .append(DecimalText(allowed).view())
                               .append(limit.burst > 0 ? ", the burst" : ", the limit")
                               .append(": a larger one would be denied for ever"));
    }
    return kConfOk;
}

/// A permit is given before its request arrives, so nothing may depend on that request.
char* checkPrefetch(ngx_conf_t* cf, const LimitDraft& draft) {
    const LimitSettings& limit = draft.limit;
    const std::string_view other = limit.id != nullptr             ? "id="
                                   : limit.delayMs > 0             ? "delay="
                                   : limit.countsAll               ? "count=all"
                                   : limit.refunds                 ? "refund="
                                   : limit.settle != nullptr       ? "settle="
                                   : limit.blockMs > 0             ? "block="
                                   : limit.costVariable != nullptr ? "variable cost="
                                                                   : "";
    return limit.prefetch == 1 || other.empty()
               ? kConfOk
               : refuseValue(cf, Parameter::Prefetch, DecimalText(limit.prefetch).view(),
                             std::string("no ").append(other).append(" with it"));
}

char* checkSettle(ngx_conf_t* cf, const LimitDraft& draft) {
    const LimitSettings& limit = draft.limit;
    if (limit.settle == nullptr) {
        return kConfOk;
    }
    const std::string_view text = view(limit.settle->value);
    if (limit.refunds) {
        return refuseValue(cf, Parameter::Settle, text, "no refund= with it: a variable that is 0 gives all back");
    }
    if (limit.countsAll) {
        return refuseValue(cf, Parameter::Settle, text,
                           "no count=all with it: a cap would drop what is owed, and bounds denied attempts");
    }
    if (limit.capGiven && limit.cap != 0) {
        return refuseValue(cf, Parameter::Settle, text, "cap=off with it: a cap would drop what is owed");
    }
    return kConfOk;
}

}  // namespace

char* completeParameters(ngx_conf_t* cf, LimitDraft& draft) {
    const Algorithm algorithm = draft.log.algorithm;
    if (takes(algorithm, Parameter::Sample) && draft.log.sample == 0) {
        draft.log.sample = kDefaultSample;
    }
    if (takes(algorithm, Parameter::Lease) && draft.log.windowMs == 0) {
        draft.log.windowMs = kDefaultLeaseMs;
    }
    if (!draft.slackGiven) {
        draft.log.slackMs = std::max<std::int64_t>(draft.log.windowMs / 10, 1);
    }
    if (char* rv = checkPrefetch(cf, draft); rv != kConfOk) {
        return rv;
    }
    if (char* rv = checkSettle(cf, draft); rv != kConfOk) {
        return rv;
    }
    return draft.limit.costVariable == nullptr ? checkCost(cf, draft) : kConfOk;
}

}  // namespace sliding_log
