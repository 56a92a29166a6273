#include "request/round.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <optional>
#include <ranges>
#include <span>

#include "limit/key.hpp"
#include "limit/most_cost.hpp"
#include "limit/number.hpp"
#include "local/local_store.hpp"
#include "redis/hash_slots.hpp"
#include "request/overriding.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

enum class Applies { Yes, No, Invalid, NoMemory };

/// A whole number up to `most` from a variable of the directive. No: the variable is empty.
Applies evaluateCount(ngx_http_request_t* request, const LogSettings& log, std::string_view parameter,
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
        if (worker().counters(log).mayTellOfInvalid(nowMs())) {
            const ngx_str_t name = toNgx(parameter);
            ngx_log_error(NGX_LOG_ERR, request->connection->log, 0,
                          "limit \"%V\": invalid \"%V\" value \"%V\", expected a whole number from 0 to %L", &log.name,
                          &name, &text, most);
        }
        return Applies::Invalid;
    }
    count = *number;
    return Applies::Yes;
}

/// Evaluates the numbers that may be variables, and copies the settings that are constant.
Applies evaluateNumbers(ngx_http_request_t* request, const LimitSettings& settings, Check& check) {
    const LogSettings& log = *settings.log;
    check.limit = settings.limit;
    check.cost = settings.cost;
    if (settings.limitVariable != nullptr) {
        const Applies applies =
            evaluateCount(request, log, "limit", *settings.limitVariable, kLargestCount, check.limit);
        if (applies != Applies::Yes) {
            return applies;
        }
        // a log never has more entries than its cap, so a larger limit would never deny
        check.limit = log.cap > 0 ? std::min(check.limit, log.cap) : check.limit;
    }
    if (settings.costVariable != nullptr) {
        const Applies applies = evaluateCount(request, log, "cost", *settings.costVariable,
                                              mostCost(log.algorithm, log.sample), check.cost);
        if (applies == Applies::Invalid || applies == Applies::NoMemory) {
            return applies;
        }
    }
    check.algorithm = log.algorithm;
    check.windowMs = log.windowMs;
    check.cap = log.longest;
    check.ttlMs = log.ttlMs();
    worker().leaseLength(log).applyTo(check);
    check.countsAll = settings.countsAll;
    const bool isRefunded = settings.refunds && settings.refund[NGX_HTTP_CLIENT_CLOSED_REQUEST];
    check.leavesWithClient = isRefunded || traitsOf(log.algorithm).countsUnderWay;
    check.delayMs = settings.reservesMs();
    check.aheadMs = log.aheadMs;
    check.blockMs = settings.blockMs;
    check.blockTimes = settings.blockTimes;
    check.escalates = log.escalates != 0;
    check.sample = log.sample;
    check.prefetch = check.cost > 0 ? settings.prefetch : 1;
    check.permitLifeMs = log.permitLifeMs;
    check.hasOverride = log.obeysKeys();
    if (takes(log.algorithm, Parameter::Burst)) {
        check.burst = settings.burst > 0 ? settings.burst : check.limit;
    }
    if (traitsOf(log.algorithm).countsPeriods) {
        check.utcAheadMs = wallClockMs() - static_cast<std::int64_t>(nowMs());
    }
    return Applies::Yes;
}

/// Evaluates the name of the request's entry; false if memory is short.
bool evaluateId(ngx_http_request_t* request, ngx_http_complex_value_t& variable, Check& check) {
    ngx_str_t id;
    if (ngx_http_complex_value(request, &variable, &id) != NGX_OK) {
        return false;
    }
    check.named = true;
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

/// Evaluates the variables of the directive for this request. Invalid: a number is not valid, or is more than can be
/// logged; it is written to the error log at most once a second.
Applies evaluate(ngx_http_request_t* request, const LimitSettings& settings, Decision& decision, Check& check) {
    ngx_str_t value;
    if (ngx_http_complex_value(request, settings.key, &value) != NGX_OK) {
        return Applies::NoMemory;
    }
    if (value.len == 0) {
        return Applies::No;
    }
    const Applies applies = evaluateNumbers(request, settings, check);
    if (applies != Applies::Yes) {
        return applies;
    }
    const LogSettings& log = *settings.log;
    const std::int64_t configuredLimit = check.limit;
    obeyRecordOfName(log, check);
    decision = {&settings, check.limit, log.redis == nullptr ? Source::Local : Source::Redis, nullptr, 0, false, false,
                0,         {}};
    decision.configuredLimit = configuredLimit;

    const std::string_view prefix = log.redis == nullptr ? std::string_view() : view(log.redis->prefix);
    const std::string_view name = view(log.name);
    auto* key = static_cast<char*>(ngx_pnalloc(request->pool, logKeyCapacity(prefix, name)));
    if (key == nullptr) {
        return Applies::NoMemory;
    }
    check.key = {key, writeLogKey(key, prefix, name, view(value), log.secrecy)};
    decision.key = check.key;
    if (log.redis != nullptr && log.redis->mode == static_cast<ngx_uint_t>(Mode::Cluster)) {
        check.hashSlot = hashSlotOf(check.key);
    }
    return settings.id == nullptr || evaluateId(request, *settings.id, check) ? Applies::Yes : Applies::NoMemory;
}

/// A round with room for all limits of the location, in one allocation, since every request needs one; nullptr if
/// memory is short.
Round* newRound(ngx_http_request_t* request, const LocationSettings& location, bool isDryRun) {
    const std::size_t most = location.limits->nelts;
    static_assert(alignof(Round) == alignof(Decision) && alignof(Round) == alignof(Check) &&
                  alignof(Round) == alignof(Verdict) && alignof(Round) == alignof(Stage));
    static_assert(std::is_trivially_destructible_v<Stage>);
    void* memory = ngx_palloc(
        request->pool, sizeof(Round) + most * (sizeof(Decision) + sizeof(Check) + sizeof(Verdict) + sizeof(Stage)));
    if (memory == nullptr) {
        return nullptr;
    }
    auto* round = new (memory) Round{};
    round->decisions = new (round + 1) Decision[most]();
    round->checks = new (round->decisions + most) Check[most]();
    round->verdicts = new (round->checks + most) Verdict[most]();
    round->stages = reinterpret_cast<Stage*>(round->verdicts + most);
    round->isDryRun = isDryRun;
    round->isEachAlone = isDryRun && location.dryRun == 0;
    round->upstreamsBefore = request->upstream_states == nullptr ? 0 : request->upstream_states->nelts;
    return round;
}

bool isAskedAfterHold(const Round& round, std::size_t limit) {
    return round.mayHold && traitsOf(round.checks[limit].algorithm).isAskedAfterHold;
}

/// The destination of a limit: a store, a hash slot in a cluster, and a script. Limits with the same destination are
/// asked in one call. The local store comes first, since its denials cost no round trip. It is asked apart by limits
/// that a request may wait for, since they are asked repeatedly, and by those that are asked after a hold.
std::size_t destinationOf(const Round& round, std::size_t limit) {
    const LimitSettings& settings = *round.decisions[limit].settings;
    const RedisSettings* redis = settings.log->redis;
    if (redis == nullptr) {
        return settings.queues() || isAskedAfterHold(round, limit) ? 1 : 0;
    }
    const Check& check = round.checks[limit];
    if (check.isDecidedByName()) {
        return 0;
    }
    return ((redis->index + 1) * kHashSlots + check.hashSlot) << 8 | static_cast<std::size_t>(check.algorithm);
}

/// Makes limits with the same destination adjacent, in the order of the configuration. Usually they are already: the
/// order is computed only if they are not, and each limit then moves once, with its check.
void sortByDestination(Round& round) {
    const auto destination = [&](std::size_t limit) { return destinationOf(round, limit); };
    const auto limits = std::views::iota(std::size_t{0}, round.count);
    if (std::ranges::is_sorted(limits, {}, destination)) {
        return;
    }
    struct Origin {
        std::size_t destination;
        std::size_t limit;
        auto operator<=>(const Origin&) const = default;
    };
    std::array<Origin, LocalStore::kMostLogs> origins;
    for (std::size_t limit : limits) {
        origins[limit] = {destination(limit), limit};
    }
    std::ranges::sort(std::span(origins).first(round.count));
    for (std::size_t to : limits) {
        std::size_t from = origins[to].limit;
        while (from < to) {  // it made room for another one before
            from = origins[from].limit;
        }
        std::swap(round.decisions[from], round.decisions[to]);
        std::swap(round.checks[from], round.checks[to]);
    }
}

/// Memory for the permits that the round may use; false if memory is short.
bool preparePermits(ngx_http_request_t* request, Round& round) {
    const std::span checks(round.checks, round.count);
    if (std::ranges::all_of(checks, [](const Check& check) { return check.prefetch == 1; })) {
        return true;
    }
    void* memory = ngx_palloc(request->pool, round.count * sizeof(Permit));
    round.permits = memory == nullptr ? nullptr : new (memory) Permit[round.count];
    return memory != nullptr;
}

/// Memory for the leases that the round may hold; false if memory is short.
bool prepareLeases(ngx_http_request_t* request, Round& round) {
    const std::span checks(round.checks, round.count);
    const auto isLeased = [](const Check& check) { return traitsOf(check.algorithm).hasLeases; };
    if (std::ranges::none_of(checks, isLeased)) {
        return true;
    }
    static_assert(std::is_trivially_destructible_v<Lease>);
    auto* memory = static_cast<Lease*>(ngx_palloc(request->pool, round.count * sizeof(Lease)));
    for (std::size_t i = 0; memory != nullptr && i < round.count; i++) {
        new (memory + i) Lease();  // they are linked by their addresses
    }
    round.leases = memory;
    return memory != nullptr;
}

inline void addStage(Context& context, std::size_t begin, std::size_t end) {
    Round& round = *context.round;
    Stage& stage = *new (round.stages + round.stageCount++) Stage();
    stage.context = &context;
    stage.begin = begin;
    stage.end = end;
    stage.isAfterHold = isAskedAfterHold(round, begin);
    if (const RedisSettings* redis = round.decisions[begin].settings->log->redis) {
        context.longest = std::max(context.longest, redis->timeout);
    }
}

/// Makes a stage of each destination. Limits with an invalid number are not asked.
void formStages(Context& context) {
    const Round& round = *context.round;
    const auto isAsked = [&](std::size_t limit) { return round.decisions[limit].source != Source::Invalid; };
    const auto isAlone = [&](std::size_t limit) { return round.isEachAlone || round.checks[limit].isDecidedByName(); };
    for (std::size_t begin = 0, end = 0; begin < round.count; begin = end) {
        end = begin + 1;
        if (!isAsked(begin)) {
            continue;
        }
        while (!isAlone(begin) && end < round.count && isAsked(end) && !isAlone(end) &&
               destinationOf(round, end) == destinationOf(round, begin)) {
            end++;
        }
        addStage(context, begin, end);
    }
}

}  // namespace

void divide(Context& context, Stage& stage) {
    for (std::size_t limit = stage.begin + 1; limit < stage.end; limit++) {
        addStage(context, limit, limit + 1);
    }
    stage.end = stage.begin + 1;
    stage.state = Stage::State::Open;
}

LimitSet rehearsedIn(const LocationSettings& location) {
    LimitSet rehearsed;
    std::size_t position = 0;
    for (const LimitSettings* limit : location.allLimits()) {
        rehearsed[position++] =
            location.isRehearsed(*limit) || worker().overrideOf(*limit->log).what == Override::What::DryRun;
    }
    return rehearsed;
}

ngx_int_t beginRound(ngx_http_request_t* request, const LocationSettings& location, LimitSet rehearsed, bool isDryRun,
                     Context*& context) {
    Round* round = nullptr;
    bool isInvalid = false;
    bool refunds = false;
    bool settles = false;
    std::size_t position = 0;
    for (const LimitSettings* limit : location.allLimits()) {
        if (rehearsed[position++] != isDryRun || (context != nullptr && context->hasAsked(*limit->log, isDryRun))) {
            continue;
        }
        round = round == nullptr ? newRound(request, location, isDryRun) : round;
        if (round == nullptr) {
            return NGX_ERROR;
        }
        Decision& decision = round->decisions[round->count];
        Check& check = round->checks[round->count];
        refunds = refunds || limit->refunds;
        settles = settles || limit->settle != nullptr;
        switch (evaluate(request, *limit, decision, check)) {
            case Applies::NoMemory:
                return NGX_ERROR;
            case Applies::No:
                check = {};
                break;
            case Applies::Invalid:
                decision = {limit, Decision::kUnknownLimit, Source::Invalid, nullptr, 0, false, false, 0, {}};
                isInvalid = true;
                [[fallthrough]];
            case Applies::Yes:
                decision.nth = round->count++;
                break;
        }
    }
    if (round == nullptr || round->count == 0) {
        return NGX_DECLINED;
    }
    round->mayHold = !isDryRun && std::ranges::any_of(std::span(round->checks, round->count),
                                                      [](const Check& check) { return check.delayMs > 0; });
    sortByDestination(*round);
    if (!preparePermits(request, *round) || !prepareLeases(request, *round)) {
        return NGX_ERROR;
    }
    if (context == nullptr) {
        context = Context::create(request);
        if (context == nullptr) {
            return NGX_ERROR;
        }
    }
    round->unique = worker().uniqueIds().next();
    round->previous = context->round;
    context->round = round;
    context->out = 0;
    context->refused = isInvalid && !round->isEachAlone;
    context->refunds = context->refunds || refunds;
    context->settles = context->settles || settles;
    context->dueAt = 0;
    if (!isDryRun) {
        context->fields = location.fields;
    }
    formStages(*context);
    return NGX_OK;
}

}  // namespace sliding_log
