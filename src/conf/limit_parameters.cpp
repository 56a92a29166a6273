#include "conf/limit_parameters.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "conf/limit_completion.hpp"
#include "conf/limit_values.hpp"
#include "conf/refuse.hpp"
#include "limit/parameter.hpp"

namespace sliding_log {

namespace {

struct KnownParameter {
    Parameter parameter;
    char* (*set)(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
    std::string_view required;         // what is expected, if it is missing; empty: it is optional
    std::string_view reason = "";      // why only some algorithms take it, unless the name says it
    std::string_view ofInflight = "";  // the same of requests under way, if they have another reason
};

constexpr KnownParameter kParameters[] = {
    {Parameter::Key, setKey, "key=TEXT, as key=$sliding_log_client"},
    {Parameter::Limit, setLimitNumber, "limit=NUMBER, as limit=1000"},
    {Parameter::Window, setWindow, "window=TIME, as window=1m", "a quota has period= instead",
     "requests under way have lease= instead"},
    {Parameter::Period, setPeriod, "period=hour, day, week or month"},
    {Parameter::Lease, setLease, ""},
    {Parameter::Cap, setCap, "", "a quota is one count, whatever it is", "only requests under way are logged"},
    {Parameter::Slack, setSlack, ""},
    {Parameter::Algorithm, setAlgorithm, ""},
    {Parameter::Id, setId, ""},
    {Parameter::Count, setCounted, "", "a quota that is used up denies until its period ends in any case",
     "a denied request is not under way"},
    {Parameter::Cost, setCost, ""},
    {Parameter::Refund, setRefund, "", "", "each request gives its entry back when it ends"},
    {Parameter::Delay, setDelay, "", "a quota has no room before its period ends, and then for all at once"},
    {Parameter::Block, setBlock, "", "a quota that is used up denies until its period ends",
     "a block would outlast the requests that caused it"},
    {Parameter::Burst, setBurst, ""},
    {Parameter::Sample, setSample, ""},
    {Parameter::Prefetch, setPrefetch, "", "", "no request holds a permit yet, so nothing would renew it"},
    {Parameter::Settle, setSettle, "", "log and sampled keep a member for each unit of a cost, or for some",
     "each request gives its entry back when it ends"},
    {Parameter::Store, setStore, ""},
    {Parameter::Excess, setExcess, ""},
    {Parameter::Secret, setSecret, ""},
    {Parameter::DryRun, setDryRun, ""},
    {Parameter::Override, setOverride, ""},
};

static_assert(std::ranges::equal(kParameters, kParameterNames, {},
                                 [](const KnownParameter& each) { return nameOf(each.parameter); }));

bool isTaken(Algorithm algorithm, const KnownParameter& parameter) {
    return !isOfSome(parameter.parameter) || takes(algorithm, parameter.parameter);
}

/// The values that a directive gives, indexed like kParameters.
using GivenValues = std::array<std::optional<std::string_view>, std::size(kParameters)>;

/// A hint for users of parameters of limit_req.
std::string_view hintFor(std::string_view word) {
    const bool isOfLimitReq = word == "nodelay" || word.starts_with("rate=") || word.starts_with("zone=");
    return isOfLimitReq ? "; docs/from-limit-req.md says what stands for the parameters of limit_req" : "";
}

char* refuseWithoutAlgorithm(ngx_conf_t* cf, Algorithm algorithm, const KnownParameter& parameter,
                             std::string_view value) {
    const bool isInflight = traitsOf(algorithm).countsUnderWay && !parameter.ofInflight.empty();
    const std::string_view reason = isInflight ? parameter.ofInflight : parameter.reason;
    const std::string names = namesOf([&](const AlgorithmRow& row) { return row.takes.has(parameter.parameter); });
    return refuseValue(
        cf, parameter.parameter, value,
        std::string("algorithm=").append(names).append(" with it").append(reason.empty() ? "" : ": ").append(reason));
}

/// Each parameter that is given must be of the algorithm, and none that it needs may lack.
char* checkPresence(ngx_conf_t* cf, const LimitDraft& draft, const GivenValues& given) {
    for (std::size_t i = 0; i < given.size(); i++) {
        if (given[i] && !isTaken(draft.log.algorithm, kParameters[i])) {
            return refuseWithoutAlgorithm(cf, draft.log.algorithm, kParameters[i], *given[i]);
        }
    }
    for (std::size_t i = 0; i < given.size(); i++) {
        const KnownParameter& parameter = kParameters[i];
        if (!parameter.required.empty() && !given[i] && isTaken(draft.log.algorithm, parameter)) {
            return refuseLack(cf, draft.limit.position, kLimitDirective, nameOf(parameter.parameter),
                              parameter.required);
        }
    }
    return kConfOk;
}

}  // namespace

char* readLimitParameters(ngx_conf_t* cf, LimitDraft& draft) {
    auto* words = static_cast<ngx_str_t*>(cf->args->elts);
    GivenValues given;
    draft.limit.cost = draft.limit.prefetch = 1;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++) {
        const std::string_view word = view(words[i]);
        const std::size_t equals = word.find('=');
        const auto* name = std::ranges::find(kParameterNames, word.substr(0, equals));
        if (equals == std::string_view::npos || name == kParameterNames.end()) {
            std::string known;
            for (const std::string_view each : kParameterNames) {
                known.append(known.empty() ? "" : "=, ").append(each);
            }
            return refuse(cf, kLimitDirective, "parameter", word,
                          std::string("one of ").append(known).append("=").append(hintFor(word)));
        }
        const auto index = static_cast<std::size_t>(name - kParameterNames.begin());
        std::optional<std::string_view>& text = given[index];
        if (text) {
            return refuseDuplicate(cf, kLimitDirective, "parameter", *name);
        }
        text = word.substr(equals + 1);
        ngx_str_t value = toNgx(*text);
        if (char* rv = kParameters[index].set(cf, draft, value); rv != kConfOk) {
            return rv;
        }
    }
    char* rv = checkPresence(cf, draft, given);
    return rv == kConfOk ? completeParameters(cf, draft) : rv;
}

}  // namespace sliding_log
