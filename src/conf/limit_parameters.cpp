#include "conf/limit_parameters.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "conf/refuse.hpp"
#include "conf/values.hpp"
#include "limit/calendar.hpp"
#include "limit/most_cost.hpp"
#include "limit/number.hpp"
#include "limit/parameter.hpp"

namespace sliding_log {

namespace {

constexpr std::int64_t kLargestSample = 1'000'000;

/// A text with variables; nullptr if nginx has refused it, and logged why.
ngx_http_complex_value_t* compile(ngx_conf_t* cf, ngx_str_t& text) {
    auto* compiled = poolNew<ngx_http_complex_value_t>(cf->pool);
    if (compiled == nullptr) {
        return nullptr;
    }
    ngx_http_compile_complex_value_t job{};
    job.cf = cf;
    job.value = &text;
    job.complex_value = compiled;
    return ngx_http_compile_complex_value(&job) == NGX_OK ? compiled : nullptr;
}

char* refuseValue(ngx_conf_t* cf, Parameter parameter, std::string_view given, std::string_view expected) {
    return refuse(cf, kLimitDirective, nameOf(parameter), given, expected);
}

bool hasVariables(const ngx_http_complex_value_t& value) {
    return value.lengths != nullptr;
}

// ---- one function per parameter

char* setKey(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    if (value.len == 0) {
        return refuseValue(cf, Parameter::Key, "", "a text, as key=$sliding_log_client");
    }
    draft.limit.key = compile(cf, value);
    return draft.limit.key == nullptr ? kConfError : kConfOk;
}

/// A whole number, or a text with variables that is to give one.
char* setCount(ngx_conf_t* cf, Parameter parameter, ngx_str_t& value, std::int64_t& count,
               ngx_http_complex_value_t*& variable) {
    ngx_http_complex_value_t* compiled = compile(cf, value);
    if (compiled == nullptr) {
        return kConfError;
    }
    if (hasVariables(*compiled)) {
        variable = compiled;
        return kConfOk;
    }
    const std::optional<std::int64_t> number = parseCount(view(value));
    if (!number) {
        return refuseValue(cf, parameter, view(value), "a whole number from 0 to 1000000000000, or a variable");
    }
    count = *number;
    return kConfOk;
}

char* setLimitNumber(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setCount(cf, Parameter::Limit, value, draft.limit.limit, draft.limit.limitVariable);
}

char* setCost(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setCount(cf, Parameter::Cost, value, draft.limit.cost, draft.limit.costVariable);
}

char* setWindow(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    const std::optional<std::int64_t> window = parseTime(value, 1);
    if (!window) {
        return refuseValue(cf, Parameter::Window, view(value), kExpectedTime);
    }
    draft.log.windowMs = *window;
    return kConfOk;
}

char* setPeriod(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    const std::optional<std::int64_t> longest = periodNamed(view(value));
    if (!longest) {
        return refuseValue(cf, Parameter::Period, view(value), "hour, day, week or month");
    }
    draft.log.windowMs = *longest;
    return kConfOk;
}

char* setLease(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    constexpr std::int64_t kShortestMs = 100;
    const std::optional<std::int64_t> lease = parseTime(value, kShortestMs);
    if (!lease) {
        return refuseValue(cf, Parameter::Lease, view(value), "an nginx time from 100ms to 366d");
    }
    draft.log.windowMs = *lease;
    return kConfOk;
}

char* setCap(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    const bool isOff = isWord(value, "off");
    const std::optional<std::int64_t> cap = isOff ? 0 : parseCount(view(value));
    if (!cap || (*cap == 0 && !isOff)) {
        return refuseValue(cf, Parameter::Cap, view(value), "a whole number from 1 to 1000000000000, or off");
    }
    draft.limit.capGiven = true;
    draft.limit.cap = *cap;
    return kConfOk;
}

/// `one, other or third`: the names of the algorithms for which the predicate is true.
template <typename Which>
std::string namesOf(Which isOne) {
    std::vector<std::string_view> names;
    for (const AlgorithmRow& row : kAlgorithms) {
        if (isOne(row)) {
            names.push_back(row.name);
        }
    }
    std::string list;
    for (std::size_t i = 0; i < names.size(); i++) {
        list.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
    }
    return list;
}

char* setAlgorithm(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    const auto* known =
        std::ranges::find_if(kAlgorithms, [&](const AlgorithmRow& row) { return isWord(value, row.name); });
    if (known == std::end(kAlgorithms)) {
        return refuseValue(cf, Parameter::Algorithm, view(value), namesOf([](const auto&) { return true; }));
    }
    draft.log.algorithm = known->algorithm;
    return kConfOk;
}

char* setId(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    if (value.len == 0) {
        return refuseValue(cf, Parameter::Id, "", "a text with a variable, as id=$request_id");
    }
    draft.limit.id = compile(cf, value);
    if (draft.limit.id == nullptr) {
        return kConfError;
    }
    if (!hasVariables(*draft.limit.id)) {
        return refuseValue(cf, Parameter::Id, view(value), "a text with a variable, as id=$request_id");
    }
    draft.log.id = value;
    return kConfOk;
}

/// A whole number from 1 to `most`.
char* setPositive(ngx_conf_t* cf, Parameter parameter, ngx_str_t& value, std::int64_t most, std::int64_t& number) {
    const std::optional<std::int64_t> given = parseCount(view(value));
    if (!given || *given < 1 || *given > most) {
        return refuseValue(cf, parameter, view(value),
                           std::string("a whole number from 1 to ").append(DecimalText(most).view()));
    }
    number = *given;
    return kConfOk;
}

char* setBurst(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setPositive(cf, Parameter::Burst, value, kLargestCount, draft.limit.burst);
}

char* setSample(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setPositive(cf, Parameter::Sample, value, kLargestSample, draft.log.sample);
}

char* setPrefetch(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    constexpr std::int64_t kMost = 10'000;
    return setPositive(cf, Parameter::Prefetch, value, kMost, draft.limit.prefetch);
}

char* setDuration(ngx_conf_t* cf, Parameter parameter, ngx_str_t& value, std::int64_t& ms) {
    const std::optional<std::int64_t> given = parseTime(value, 0);
    if (!given) {
        return refuseValue(cf, parameter, view(value), kExpectedDuration);
    }
    ms = *given;
    return kConfOk;
}

char* setSlack(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    draft.slackGiven = true;
    return setDuration(cf, Parameter::Slack, value, draft.log.slackMs);
}

char* setDelay(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setDuration(cf, Parameter::Delay, value, draft.limit.delayMs);
}

/// Times, separated by commas; false if they are none, or too many.
bool readBlockTimes(std::string_view list, BlockTimes& times) {
    for (bool isLast = false; !isLast;) {
        const std::size_t comma = list.find(',');
        isLast = comma == std::string_view::npos;
        const std::optional<std::int64_t> ms = parseTime(toNgx(list.substr(0, comma)), 1);
        if (!ms || times.count == BlockTimes::kMost) {
            return false;
        }
        times.ms[times.count++] = *ms;
        list.remove_prefix(isLast ? list.size() : comma + 1);
    }
    return true;
}

char* setBlock(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    LimitSettings& limit = draft.limit;
    if (view(value).find(',') == std::string_view::npos) {
        return setDuration(cf, Parameter::Block, value, limit.blockMs);
    }
    if (!readBlockTimes(view(value), limit.blockTimes)) {
        return refuseValue(cf, Parameter::Block, view(value),
                           "2 to 10 nginx times from 1ms to 366d, as block=1m,10m,1h");
    }
    limit.blockMs = limit.blockTimes.at(1);
    return kConfOk;
}

char* setCounted(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    draft.limit.countsAll = isWord(value, "all");
    return draft.limit.countsAll || isWord(value, "allowed")
               ? kConfOk
               : refuseValue(cf, Parameter::Count, view(value), "allowed or all");
}

char* setExcess(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    draft.limit.excess = isWord(value, "drop") ? Excess::Drop : Excess::Reject;
    return draft.limit.excess == Excess::Drop || isWord(value, "reject")
               ? kConfOk
               : refuseValue(cf, Parameter::Excess, view(value), "reject or drop");
}

/// `404`, or `2xx` for a hundred statuses; false if it is neither.
bool addStatuses(LimitSettings::Statuses& statuses, std::string_view word) {
    if (word.size() != 3 || word[0] < '1' || word[0] > '5') {
        return false;
    }
    const bool isClass = word.substr(1) == "xx";
    const std::optional<std::int64_t> first = isClass ? (word[0] - '0') * 100 : parseCount(word);
    for (std::int64_t status = first.value_or(0); first && status < *first + (isClass ? 100 : 1); status++) {
        statuses.set(static_cast<std::size_t>(status));
    }
    return first.has_value();
}

char* setRefund(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    draft.limit.refunds = true;
    std::string_view rest = view(value);
    for (bool isLast = false; !isLast;) {
        const std::size_t comma = rest.find(',');
        isLast = comma == std::string_view::npos;
        if (!addStatuses(draft.limit.refund, rest.substr(0, comma))) {
            return refuseValue(cf, Parameter::Refund, view(value),
                               "statuses from 100 to 599 or their classes, as refund=2xx,404");
        }
        rest.remove_prefix(isLast ? rest.size() : comma + 1);
    }
    return kConfOk;
}

char* setSettle(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    draft.limit.settle = compile(cf, value);
    if (draft.limit.settle == nullptr) {
        return kConfError;
    }
    return hasVariables(*draft.limit.settle)
               ? kConfOk
               : refuseValue(cf, Parameter::Settle, view(value), "a variable, as settle=$upstream_http_x_cost");
}

char* setStore(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    if (value.len == 0) {
        return refuseValue(cf, Parameter::Store, "", "the name of a sliding_log_redis block, or local");
    }
    draft.limit.store = value;
    return kConfOk;
}

char* setSwitch(ngx_conf_t* cf, Parameter parameter, const ngx_str_t& value, bool& isOn) {
    isOn = isWord(value, "on");
    return isOn || isWord(value, "off") ? kConfOk : refuseValue(cf, parameter, view(value), "on or off");
}

char* setSecret(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    bool isSecret = false;
    char* rv = setSwitch(cf, Parameter::Secret, value, isSecret);
    draft.log.secrecy = isSecret ? Secrecy::Secret : Secrecy::Open;
    return rv;
}

char* setOverride(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setSwitch(cf, Parameter::Override, value, draft.log.hasOverride);
}

char* setDryRun(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setSwitch(cf, Parameter::DryRun, value, draft.limit.dryRun.emplace());
}

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
     "nobody is to be denied for longer than requests are under way"},
    {Parameter::Burst, setBurst, ""},
    {Parameter::Sample, setSample, ""},
    {Parameter::Prefetch, setPrefetch, "", "", "a permit is nobody's until a request uses it"},
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

/// Checks and defaults that concern several parameters.
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
