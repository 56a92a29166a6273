#include "conf/limit_values.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "conf/values.hpp"
#include "limit/calendar.hpp"
#include "limit/number.hpp"

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

bool hasVariables(const ngx_http_complex_value_t& value) {
    return value.lengths != nullptr;
}

/// The index of the variable that the text is; NGX_ERROR: it is something else.
ngx_int_t variableOf(const ngx_http_complex_value_t& value) {
    const std::string_view text = view(value.value);
    const std::size_t signs = text.starts_with("${") ? std::string_view("${}").size() : 1;
    const auto isAll = [&](std::string_view name) { return name.size() + signs == text.size(); };
    // nginx lists all variables that it flushes first; the end is -1
    const bool isOne = value.flushes != nullptr && value.flushes[1] == static_cast<ngx_uint_t>(NGX_ERROR);
    return isOne && usesVariable(text, isAll) ? static_cast<ngx_int_t>(value.flushes[0]) : NGX_ERROR;
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

char* setDuration(ngx_conf_t* cf, Parameter parameter, ngx_str_t& value, std::int64_t& ms) {
    const std::optional<std::int64_t> given = parseTime(value, 0);
    if (!given) {
        return refuseValue(cf, parameter, view(value), kExpectedDuration);
    }
    ms = *given;
    return kConfOk;
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

char* setSwitch(ngx_conf_t* cf, Parameter parameter, const ngx_str_t& value, bool& isOn) {
    isOn = isWord(value, "on");
    return isOn || isWord(value, "off") ? kConfOk : refuseValue(cf, parameter, view(value), "on or off");
}

}  // namespace

char* setKey(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    if (value.len == 0) {
        return refuseValue(cf, Parameter::Key, "", "a text, as key=$sliding_log_client");
    }
    draft.limit.key = compile(cf, value);
    if (draft.limit.key == nullptr) {
        return kConfError;
    }
    draft.limit.keyVariable = variableOf(*draft.limit.key);
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

char* setSlack(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    draft.slackGiven = true;
    return setDuration(cf, Parameter::Slack, value, draft.log.slackMs);
}

char* setDelay(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setDuration(cf, Parameter::Delay, value, draft.limit.delayMs);
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
        return refuseValue(cf, Parameter::Store, "", kExpectedStore);
    }
    ngx_http_complex_value_t* compiled = compile(cf, value);
    if (compiled == nullptr) {
        return kConfError;
    }
    draft.limit.store = value;
    draft.limit.storeVariable = hasVariables(*compiled) ? compiled : nullptr;
    return kConfOk;
}

char* setSecret(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    bool isSecret = false;
    char* rv = setSwitch(cf, Parameter::Secret, value, isSecret);
    draft.log.secrecy = isSecret ? Secrecy::Secret : Secrecy::Open;
    return rv;
}

char* setOverride(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    for (const OverrideBy each : {OverrideBy::None, OverrideBy::Name, OverrideBy::Key}) {
        if (isWord(value, nameOf(each))) {
            draft.log.override = each;
            return kConfOk;
        }
    }
    return refuseValue(cf, Parameter::Override, view(value), "on, name or off");
}

char* setDryRun(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value) {
    return setSwitch(cf, Parameter::DryRun, value, draft.limit.dryRun.emplace());
}

}  // namespace sliding_log
