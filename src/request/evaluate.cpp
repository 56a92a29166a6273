#include "request/evaluate.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "limit/key.hpp"
#include "limit/most_cost.hpp"
#include "limit/number.hpp"
#include "limit/parameter.hpp"
#include "limit/store_directive.hpp"
#include "redis/hash_slots.hpp"
#include "request/overriding.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

/// A variable of the directive has a value that it cannot have. Returns Invalid.
Applies refuse(ngx_http_request_t* request, const LogSettings& log, Parameter parameter, const ngx_str_t& text,
               std::string_view expected) {
    if (worker().counters(log).mayTellOfInvalid(nowMs())) {
        const ngx_str_t texts[] = {toNgx(nameOf(parameter)), toNgx(expected)};
        ngx_log_error(NGX_LOG_ERR, request->connection->log, 0,
                      "limit \"%V\": invalid \"%V\" value \"%V\", expected %V", &log.name, &texts[0], &text, &texts[1]);
    }
    return Applies::Invalid;
}

/// A whole number up to `most` from a variable of the directive. No: the variable is empty.
Applies evaluateCount(ngx_http_request_t* request, const LogSettings& log, Parameter parameter,
                      ngx_http_complex_value_t& variable, std::int64_t most, std::int64_t& count) {
    ngx_str_t text;
    if (ngx_http_complex_value(request, &variable, &text) != NGX_OK) {
        return Applies::NoMemory;
    }
    if (text.len == 0) {
        return Applies::No;
    }
    const std::optional<std::int64_t> number = parseCount(view(text));
    if (!number || *number > most) {
        const std::string expected = std::string("a whole number from 0 to ").append(DecimalText(most).view());
        return refuse(request, log, parameter, text, expected);
    }
    count = *number;
    return Applies::Yes;
}

/// Evaluates the value of the key; false if memory is short. The value of one variable is not copied.
bool evaluateKey(ngx_http_request_t* request, const LimitSettings& settings, ngx_str_t& value) {
    if (settings.keyVariable == NGX_ERROR) {
        return ngx_http_complex_value(request, settings.key, &value) == NGX_OK;
    }
    const ngx_http_variable_value_t* found =
        ngx_http_get_flushed_variable(request, static_cast<ngx_uint_t>(settings.keyVariable));
    const bool hasValue = found != nullptr && found->not_found == 0;
    value = hasValue ? ngx_str_t{found->len, found->data} : ngx_str_t{};
    return true;
}

/// Evaluates the numbers that are variables; the others are in the check already.
Applies evaluateNumbers(ngx_http_request_t* request, const LimitSettings& settings, Check& check) {
    const LogSettings& log = *settings.log;
    if (settings.limitVariable != nullptr) {
        const Applies applies =
            evaluateCount(request, log, Parameter::Limit, *settings.limitVariable, kLargestCount, check.limit);
        if (applies != Applies::Yes) {
            return applies;
        }
        // a log never has more entries than its cap, so a larger limit would never deny
        check.limit = log.cap > 0 ? std::min(check.limit, log.cap) : check.limit;
        if (takes(log.algorithm, Parameter::Burst) && settings.burst == 0) {
            check.burst = check.limit;
        }
    }
    if (settings.costVariable != nullptr) {
        const Applies applies = evaluateCount(request, log, Parameter::Cost, *settings.costVariable,
                                              mostCost(log.algorithm, log.sample), check.cost);
        if (applies == Applies::Invalid || applies == Applies::NoMemory) {
            return applies;
        }
    }
    worker().leaseLength(log).applyTo(check);
    if (traitsOf(log.algorithm).countsPeriods) {
        check.utcAheadMs = wallClockMs() - static_cast<std::int64_t>(nowMs());
    }
    return Applies::Yes;
}

/// The decision of an earlier round on the same log; nullptr: none was asked.
const Decision* askedBefore(const Context* context, const LogSettings& log) {
    for (const Round* round = context == nullptr ? nullptr : context->round; round != nullptr;
         round = round->previous) {
        const std::span<const Decision> all(round->decisions, round->count);
        const auto found = std::ranges::find_if(
            all, [&](const Decision& each) { return each.settings->log == &log && each.source != Source::Invalid; });
        if (found != all.end()) {
            return &*found;
        }
    }
    return nullptr;
}

/// Sets the store of the limit for this request; it stays the same for all of the request. Invalid: there is none of
/// this name, `text`.
Applies evaluateHome(ngx_http_request_t* request, const Context* context, const LimitSettings& settings,
                     const RedisSettings*& home, ngx_str_t& text) {
    const LogSettings& log = *settings.log;
    const auto theDefault = [&] { return log.homes.empty() ? nullptr : log.homes.front(); };
    if (settings.storeVariable == nullptr) {
        home = theDefault();
        return Applies::Yes;
    }
    if (const Decision* before = askedBefore(context, log)) {
        home = before->home;
        return Applies::Yes;
    }
    if (ngx_http_complex_value(request, settings.storeVariable, &text) != NGX_OK) {
        return Applies::NoMemory;
    }
    if (RedisSettings* const* found = findStore(log.homes, view(text))) {
        home = *found;
    } else if (view(text) == kLocalStore) {
        home = nullptr;
    } else if (view(text) == kDefaultStore) {
        home = theDefault();
    } else {
        return Applies::Invalid;
    }
    return Applies::Yes;
}

/// Writes the names of the log in its store and in the node; false if memory is short.
bool writeKeys(ngx_http_request_t* request, const LimitSettings& settings, const RedisSettings* home,
               const ngx_str_t& value, Check& check) {
    const LogSettings& log = *settings.log;
    const std::string_view prefix = home == nullptr ? std::string_view() : view(home->prefix);
    const std::string_view name = view(log.name);
    const bool isOneOfSeveral = home != nullptr && settings.storeVariable != nullptr;
    const std::string_view behind = isOneOfSeveral ? view(home->name) : std::string_view();
    auto* key = static_cast<char*>(ngx_pnalloc(request->pool, logKeyCapacity(prefix, name) + behind.size()));
    if (key == nullptr) {
        return false;
    }
    check.key = {key, writeLogKey(key, prefix, name, view(value), log.secrecy)};
    if (isOneOfSeveral) {
        std::ranges::copy(behind, key + check.key.size());
        check.keyInNode = {key, check.key.size() + behind.size()};
    }
    if (home != nullptr && home->mode == static_cast<ngx_uint_t>(Mode::Cluster)) {
        check.hashSlot = hashSlotOf(check.key);
    }
    return true;
}

/// Evaluates the name of the request's entry; false if memory is short.
bool evaluateId(ngx_http_request_t* request, ngx_http_complex_value_t& variable, Check& check) {
    ngx_str_t id;
    if (ngx_http_complex_value(request, &variable, &id) != NGX_OK) {
        return false;
    }
    check.id = view(id);
    if (id.len > kLongestPlainValue) {  // a client must not fill Redis with long names
        auto* hashed = static_cast<char*>(ngx_pnalloc(request->pool, kHashedLength));
        if (hashed == nullptr) {
            return false;
        }
        writeHashed(hashed, view(id));
        check.id = {hashed, kHashedLength};
    }
    return true;
}

}  // namespace

Applies evaluate(ngx_http_request_t* request, const Context* context, const LimitSettings& settings, Decision& decision,
                 Check& check) {
    ngx_str_t value;
    if (!evaluateKey(request, settings, value)) {
        return Applies::NoMemory;
    }
    if (value.len == 0) {
        return Applies::No;
    }
    if (const Applies applies = evaluateNumbers(request, settings, check); applies != Applies::Yes) {
        return applies;
    }
    const RedisSettings* home = nullptr;
    ngx_str_t store;
    const Applies hasHome = evaluateHome(request, context, settings, home, store);
    if (hasHome == Applies::Invalid) {
        return refuse(request, *settings.log, Parameter::Store, store,
                      "the name of a sliding_log_redis block, local or default");
    }
    if (hasHome != Applies::Yes) {
        return hasHome;
    }
    if (home != nullptr && settings.storeVariable != nullptr) {
        worker().store(*home).start();  // this may be the first request that needs it
    }
    decision.settings = &settings;
    decision.home = home;
    decision.source = home == nullptr ? Source::Local : Source::Redis;
    decision.configuredLimit = check.limit;
    check.hasOverride = home != nullptr && settings.log->obeysKeys();
    if (settings.log->obeysName()) {
        obeyRecordOfName(decision, check);
    }
    decision.limit = check.limit;
    if (!writeKeys(request, settings, home, value, check)) {
        return Applies::NoMemory;
    }
    decision.key = check.key;
    return settings.id == nullptr || evaluateId(request, *settings.id, check) ? Applies::Yes : Applies::NoMemory;
}

bool isRehearsedByRecord(ngx_http_request_t* request, const Context* context, const LimitSettings& settings) {
    const LogSettings& log = *settings.log;
    const RedisSettings* home = nullptr;
    ngx_str_t store;
    return log.obeysName() && evaluateHome(request, context, settings, home, store) == Applies::Yes &&
           worker().overrideOf(log, home).what == Override::What::DryRun;
}

}  // namespace sliding_log
