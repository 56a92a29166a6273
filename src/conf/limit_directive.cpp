#include "conf/limit_directive.hpp"

#include <algorithm>
#include <bitset>
#include <string_view>

#include "conf/refuse.hpp"
#include "conf/settings.hpp"
#include "conf/values.hpp"
#include "limit/number.hpp"
#include "store/local_store.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kDirective = "sliding_log_limit";
constexpr std::size_t kLongestName = 64;

/// The directive as it is read, before it joins the log of its NAME.
struct Draft {
    LimitSettings limit{};
    LogSettings log{};
    bool slackGiven = false;
};

char* outOfMemory() {
    return kConfError;
}  // nginx has logged it

bool isName(std::string_view text) {
    constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    return !text.empty() && text.size() <= kLongestName && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// A text with variables; nullptr when nginx refused it, and has said why.
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

// ---- one function per parameter

char* setKey(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    if (value.len == 0) {
        return refuse(cf, kDirective, "key", "", "a text, as key=$binary_remote_addr");
    }
    draft.limit.key = compile(cf, value);
    return draft.limit.key == nullptr ? kConfError : kConfOk;
}

char* setLimitNumber(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    ngx_http_complex_value_t* compiled = compile(cf, value);
    if (compiled == nullptr) {
        return kConfError;
    }
    if (hasVariables(*compiled)) {
        draft.limit.limitVariable = compiled;
        return kConfOk;
    }
    const std::optional<std::int64_t> limit = parseCount(view(value));
    if (!limit) {
        return refuse(cf, kDirective, "limit", view(value), "a whole number from 0 to 1000000000000, or a variable");
    }
    draft.limit.limit = *limit;
    return kConfOk;
}

char* setWindow(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    const std::optional<std::int64_t> window = parseTime(value, 1);
    if (!window) {
        return refuse(cf, kDirective, "window", view(value), kExpectedTime);
    }
    draft.log.windowMs = *window;
    return kConfOk;
}

char* setCap(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    const std::optional<std::int64_t> cap = view(value) == "off" ? 0 : parseCount(view(value));
    if (!cap || (*cap == 0 && view(value) != "off")) {
        return refuse(cf, kDirective, "cap", view(value), "a whole number from 1 to 1000000000000, or off");
    }
    draft.limit.capGiven = true;
    draft.limit.cap = *cap;
    return kConfOk;
}

char* setSlack(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    const std::optional<std::int64_t> slack = parseTime(value, 0);
    if (!slack) {
        return refuse(cf, kDirective, "slack", view(value), "an nginx time up to 366d");
    }
    draft.slackGiven = true;
    draft.log.slackMs = *slack;
    return kConfOk;
}

struct AlgorithmName {
    std::string_view name;
    Algorithm algorithm;
};

constexpr AlgorithmName kAlgorithms[] = {
    {"log", Algorithm::Log},
    {"compact", Algorithm::Compact},
};

char* setAlgorithm(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    const auto* known = std::ranges::find(kAlgorithms, view(value), &AlgorithmName::name);
    if (known == std::end(kAlgorithms)) {
        return refuse(cf, kDirective, "algorithm", view(value), "log or compact");
    }
    draft.log.algorithm = known->algorithm;
    return kConfOk;
}

std::string_view nameOf(Algorithm algorithm) {
    return std::ranges::find(kAlgorithms, algorithm, &AlgorithmName::algorithm)->name;
}

char* setId(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    if (value.len == 0) {
        return refuse(cf, kDirective, "id", "", "a text with a variable, as id=$request_id");
    }
    draft.limit.id = compile(cf, value);
    if (draft.limit.id == nullptr) {
        return kConfError;
    }
    if (!hasVariables(*draft.limit.id)) {
        return refuse(cf, kDirective, "id", view(value), "a text with a variable, as id=$request_id");
    }
    draft.log.id = value;
    return kConfOk;
}

char* setStore(ngx_conf_t* cf, Draft& draft, ngx_str_t& value) {
    if (value.len == 0) {
        return refuse(cf, kDirective, "store", "", "the name of a sliding_log_redis block, or local");
    }
    draft.limit.store = value;
    return kConfOk;
}

struct Parameter {
    std::string_view name;
    char* (*set)(ngx_conf_t* cf, Draft& draft, ngx_str_t& value);
    std::string_view required;  // what to say when it is missing; empty: it need not be there
};

constexpr Parameter kParameters[] = {
    {"key", setKey, "key=TEXT, as key=$binary_remote_addr"},
    {"limit", setLimitNumber, "limit=NUMBER, as limit=1000"},
    {"window", setWindow, "window=TIME, as window=1m"},
    {"cap", setCap, ""},
    {"slack", setSlack, ""},
    {"algorithm", setAlgorithm, ""},
    {"id", setId, ""},
    {"store", setStore, ""},
};

char* readParameters(ngx_conf_t* cf, Draft& draft) {
    auto* words = static_cast<ngx_str_t*>(cf->args->elts);
    std::bitset<std::size(kParameters)> given;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++) {
        const std::string_view word = view(words[i]);
        const std::size_t equals = word.find('=');
        const auto* parameter = std::ranges::find(kParameters, word.substr(0, equals), &Parameter::name);
        if (equals == std::string_view::npos || parameter == std::end(kParameters)) {
            return refuse(cf, kDirective, "parameter", word,
                          "key=, limit=, window=, cap=, slack=, algorithm=, id= or store=");
        }
        const auto index = static_cast<std::size_t>(parameter - kParameters);
        if (given[index]) {
            return refuseDuplicate(cf, kDirective, parameter->name);
        }
        given[index] = true;
        ngx_str_t value = toNgx(word.substr(equals + 1));
        if (char* rv = parameter->set(cf, draft, value); rv != kConfOk) {
            return rv;
        }
    }
    for (const Parameter& parameter : kParameters) {
        if (!parameter.required.empty() && !given[static_cast<std::size_t>(&parameter - kParameters)]) {
            const ngx_str_t name = toNgx(parameter.name);
            const ngx_str_t expected = toNgx(parameter.required);
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"sliding_log_limit\" has no \"%V\" parameter, expected %V",
                               &name, &expected);
            return kConfError;
        }
    }
    if (draft.limit.id != nullptr && draft.log.algorithm != Algorithm::Log) {
        return refuse(cf, kDirective, "id", view(draft.log.id), "algorithm=log with it: the others keep no ids");
    }
    if (!draft.slackGiven) {
        draft.log.slackMs = std::max<std::int64_t>(draft.log.windowMs / 10, 1);
    }
    return kConfOk;
}

// ---- the log of that NAME

template <typename T>
T* pushNew(ngx_pool_t* pool, ngx_array_t& array, const T& value) {
    T* kept = poolNew<T>(pool);
    auto** slot = static_cast<T**>(ngx_array_push(&array));
    if (kept == nullptr || slot == nullptr) {
        return nullptr;
    }
    *kept = value;
    return *slot = kept;
}

LogSettings* findLog(const MainSettings& settings, std::string_view name) {
    auto** logs = static_cast<LogSettings**>(settings.logs.elts);
    for (ngx_uint_t i = 0; i < settings.logs.nelts; i++) {
        if (view(logs[i]->name) == name) {
            return logs[i];
        }
    }
    return nullptr;
}

char* refuseDisagreement(ngx_conf_t* cf, const LogSettings& log, const char* parameter, std::string_view text) {
    const ngx_str_t offending = toNgx(text);
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"sliding_log_limit\" %V has another %s (\"%V\") than the limit of that name above, "
                       "expected the same: they are one log",
                       &log.name, parameter, &offending);
    return kConfError;
}

/// What two directives of one NAME must share, as far as it is known before the whole configuration is read; cap and
/// store follow in finishLimits().
char* checkAgreement(ngx_conf_t* cf, const LogSettings& log, const LogSettings& draft) {
    if (log.windowMs != draft.windowMs) {
        return refuseDisagreement(cf, log, "window", DecimalText(draft.windowMs).view());
    }
    if (log.slackMs != draft.slackMs) {
        return refuseDisagreement(cf, log, "slack", DecimalText(draft.slackMs).view());
    }
    if (log.algorithm != draft.algorithm) {
        return refuseDisagreement(cf, log, "algorithm", nameOf(draft.algorithm));
    }
    if (view(log.id) != view(draft.id)) {
        return refuseDisagreement(cf, log, "id", view(draft.id));
    }
    return kConfOk;
}

char* setOff(ngx_conf_t* cf, LocationSettings& location) {
    if (cf->args->nelts != 2) {
        return refuse(cf, kDirective, "parameter", view(static_cast<ngx_str_t*>(cf->args->elts)[2]), "off alone");
    }
    if (location.limits != nullptr) {
        return refuse(cf, kDirective, "value", "off", "off alone, or limits, at one level");
    }
    location.limits = ngx_array_create(cf->pool, 1, sizeof(LimitSettings*));
    return location.limits == nullptr ? outOfMemory() : kConfOk;
}

}  // namespace

char* setLimit(ngx_conf_t* cf, ngx_command_t*, void* conf) {
    auto& location = *static_cast<LocationSettings*>(conf);
    auto& main = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_sliding_log_module));
    const ngx_str_t& name = static_cast<ngx_str_t*>(cf->args->elts)[1];
    if (view(name) == "off") {
        return setOff(cf, location);
    }
    if (!isName(view(name))) {
        return refuse(cf, kDirective, "NAME", view(name), "1 to 64 characters of [A-Za-z0-9_.-]");
    }
    Draft draft;
    draft.log.name = name;
    draft.limit.file = cf->conf_file->file.name;
    draft.limit.line = cf->conf_file->line;
    if (char* rv = readParameters(cf, draft); rv != kConfOk) {
        return rv;
    }

    if (location.limits == nullptr) {
        location.limits = ngx_array_create(cf->pool, 4, sizeof(LimitSettings*));
        if (location.limits == nullptr) {
            return outOfMemory();
        }
    } else if (location.limits->nelts == 0) {
        return refuse(cf, kDirective, "value", view(name), "off alone, or limits, at one level");
    }

    LogSettings* log = findLog(main, view(name));
    if (log == nullptr) {
        log = pushNew(cf->pool, main.logs, draft.log);
        if (log == nullptr) {
            return outOfMemory();
        }
    } else if (char* rv = checkAgreement(cf, *log, draft.log); rv != kConfOk) {
        return rv;
    }
    auto** others = static_cast<LimitSettings**>(location.limits->elts);
    for (ngx_uint_t i = 0; i < location.limits->nelts; i++) {
        if (others[i]->log == log) {
            return refuseDuplicate(cf, kDirective, view(name));
        }
    }

    if (location.limits->nelts == LocalStore::kMostLogs) {
        return refuse(cf, kDirective, "number of limits at one level, with", view(name), "at most 32");
    }
    if (draft.limit.limitVariable != nullptr) {
        log->variableLimit = 1;
    } else {
        log->largestLimit = std::max(log->largestLimit, draft.limit.limit);
    }
    draft.limit.log = log;
    LimitSettings* limit = pushNew(cf->pool, main.limits, draft.limit);
    auto** slot = static_cast<LimitSettings**>(ngx_array_push(location.limits));
    if (limit == nullptr || slot == nullptr) {
        return outOfMemory();
    }
    *slot = limit;
    return kConfOk;
}

}  // namespace sliding_log
