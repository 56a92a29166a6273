#include "request/round.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <ranges>
#include <span>

#include "local/local_store.hpp"
#include "redis/hash_slots.hpp"
#include "request/evaluate.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

/// A round with room for all limits of the location, in one allocation, since every request needs one; nullptr if
/// memory is short. Decisions and checks are made when their limits are evaluated.
Round* newRound(ngx_http_request_t* request, const LocationSettings& location, bool isDryRun) {
    const std::size_t most = location.limits->nelts;
    static_assert(alignof(Round) == alignof(Decision) && alignof(Round) == alignof(Check) &&
                  alignof(Round) == alignof(Verdict) && alignof(Round) == alignof(Stage));
    static_assert(std::is_trivially_destructible_v<Stage>);
    static_assert(std::is_trivially_copyable_v<Decision> && std::is_trivially_copyable_v<Check>);
    void* memory = ngx_palloc(
        request->pool, sizeof(Round) + most * (sizeof(Decision) + sizeof(Check) + sizeof(Verdict) + sizeof(Stage)));
    if (memory == nullptr) {
        return nullptr;
    }
    auto* round = new (memory) Round{};
    round->decisions = reinterpret_cast<Decision*>(round + 1);
    round->checks = reinterpret_cast<Check*>(round->decisions + most);
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
    const RedisSettings* redis = round.decisions[limit].home;
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
    if (const RedisSettings* redis = round.decisions[begin].home) {
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

LimitSet rehearsedIn(ngx_http_request_t* request, const LocationSettings& location, const Context* context) {
    LimitSet rehearsed;
    std::size_t position = 0;
    for (const LimitSettings* limit : location.allLimits()) {
        rehearsed[position++] = location.isRehearsed(*limit) || isRehearsedByRecord(request, context, *limit);
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
        Decision& decision = *new (round->decisions + round->count) Decision{};
        Check& check = *new (round->checks + round->count) Check(limit->check);
        refunds = refunds || limit->refunds;
        settles = settles || limit->settle != nullptr;
        switch (evaluate(request, context, *limit, decision, check)) {
            case Applies::NoMemory:
                return NGX_ERROR;
            case Applies::No:
                break;
            case Applies::Invalid:
                decision = {.settings = limit, .limit = Decision::kUnknownLimit, .source = Source::Invalid};
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
