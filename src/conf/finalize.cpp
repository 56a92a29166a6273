#include "conf/finalize.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>

#include "conf/refuse.hpp"
#include "conf/values.hpp"
#include "conf/warnings.hpp"
#include "limit/number.hpp"
#include "limit/store_directive.hpp"
#include "local/zone.hpp"

namespace sliding_log {

namespace {

constexpr size_t kDefaultZoneSize = size_t{10} * 1024 * 1024;

std::string nameOf(const LimitSettings& limit) {
    return std::string("sliding_log_limit ").append(view(limit.log->name));
}

char* refuseLater(ngx_conf_t* cf, const LimitSettings& limit, Parameter parameter, std::string_view text,
                  std::string_view expected) {
    return refuseAt(cf, limit.position, nameOf(limit), nameOf(parameter), text, expected);
}

/// The store that all requests of the limit have, if any: empty if it is local, or if there is none of that name.
std::span<RedisSettings* const> storeOf(const MainSettings& main, const LimitSettings& limit) {
    const std::span<RedisSettings* const> all = main.allStores();
    if (limit.store.len == 0) {
        return all.first(std::min<std::size_t>(all.size(), 1));
    }
    RedisSettings* const* found = findStore(all, view(limit.store));
    return found == nullptr ? std::span<RedisSettings* const>() : std::span(found, 1);
}

char* refuseOtherStore(ngx_conf_t* cf, const LimitSettings& limit, std::string_view text) {
    return refuseLater(cf, limit, Parameter::Store, text, "the one of the other limits of that name");
}

/// The store may be any: which one is known with each request.
char* finalizeStoreVariable(ngx_conf_t* cf, const MainSettings& main, const LimitSettings& limit) {
    LogSettings& log = *limit.log;
    if (log.finalizedBy != nullptr && view(log.finalizedBy->store) != view(limit.store)) {
        return refuseOtherStore(cf, limit, view(limit.store));
    }
    log.homes = main.allStores();
    for (RedisSettings* each : log.homes) {
        each->nameable = 1;
    }
    return kConfOk;
}

char* finalizeStore(ngx_conf_t* cf, const MainSettings& main, const LimitSettings& limit) {
    if (limit.storeVariable != nullptr) {
        return finalizeStoreVariable(cf, main, limit);
    }
    LogSettings& log = *limit.log;
    const std::span<RedisSettings* const> store = storeOf(main, limit);
    if (store.empty() && limit.store.len > 0 && view(limit.store) != kLocalStore) {
        return refuseLater(cf, limit, Parameter::Store, view(limit.store), kExpectedStore);
    }
    const bool isSame = log.finalizedBy == nullptr ||
                        (log.finalizedBy->storeVariable == nullptr && std::ranges::equal(log.homes, store));
    if (!isSame) {
        return refuseOtherStore(cf, limit, store.empty() ? kLocalStore : view(store.front()->name));
    }
    log.homes = store;
    for (RedisSettings* each : store) {
        each->used = 1;
    }
    return kConfOk;
}

/// 1.2 times the largest limit, rounded up; none if a limit is a variable or has settle=, or if the algorithm takes no
/// cap=.
std::int64_t defaultCap(const LogSettings& log) {
    const bool hasNone = log.variableLimit != 0 || log.settles != 0 || !takes(log.algorithm, Parameter::Cap);
    return hasNone ? 0 : std::max<std::int64_t>((log.mostAllowed() * 12 + 9) / 10, 1);
}

std::string capText(std::int64_t cap) {
    return cap == 0 ? "off" : std::string(DecimalText(cap).view());
}

/// Two directives of one NAME have different caps. One of them may be a default, which the configuration does not have.
char* refuseOtherCap(ngx_conf_t* cf, const LimitSettings& limit, std::int64_t cap) {
    const LimitSettings& other = *limit.log->finalizedBy;
    const std::string ours = capText(cap);
    const std::string theirs = capText(limit.log->cap);
    std::string there(view(other.position.file));
    there.append(":").append(DecimalText(static_cast<std::int64_t>(other.position.line)).view());
    if (limit.capGiven) {
        return refuseLater(cf, limit, Parameter::Cap, ours,
                           other.capGiven ? "the same as cap=" + theirs + " in " + there + ": they share one log"
                                          : "the same as in " + there + ", where none is written and " + theirs +
                                                " is the default: write cap=" + ours + " there, too");
    }
    const std::string expected =
        "cap=" + theirs + " instead of the default, " + ours + ", as in " + there + ": they share one log";
    return refuseLack(cf, limit.position, nameOf(limit), nameOf(Parameter::Cap), expected);
}

char* finalizeCap(ngx_conf_t* cf, const LimitSettings& limit) {
    LogSettings& log = *limit.log;
    const std::int64_t cap = limit.capGiven ? limit.cap : defaultCap(log);
    if (cap != 0 && cap < log.mostAllowed()) {
        return refuseLater(cf, limit, Parameter::Cap, capText(cap),
                           "a whole number not below the largest limit of that name, or off: a log cut shorter than "
                           "its limit would never deny");
    }
    if (log.finalizedBy != nullptr && log.cap != cap) {
        return refuseOtherCap(cf, limit, cap);
    }
    const bool isCappedBelowCost = limit.limitVariable != nullptr && limit.burst == 0 && limit.cost > cap && cap != 0;
    if (limit.costVariable == nullptr && isCappedBelowCost) {
        return refuseLater(cf, limit, Parameter::Cost, DecimalText(limit.cost).view(),
                           "at most the cap, " + capText(cap) + ", which a variable limit never exceeds");
    }
    if (cap == 0 && limit.countsAll) {
        return refuseLater(cf, limit, Parameter::Count, "all", "a cap with it, which bounds what denied attempts add");
    }
    log.cap = cap;
    log.longest = cap;
    log.finalizedBy = &limit;
    return kConfOk;
}

/// How many entries a log may have when denied requests are added and entries may be ahead of now: the cap, and a limit
/// for each window that reservations reach into. A shorter log would lose entries that decide.
std::int64_t withReservations(const LogSettings& log) {
    const std::int64_t limit = log.variableLimit ? log.cap : log.mostAllowed();
    const std::int64_t windows = (log.aheadMs + log.windowMs - 1) / log.windowMs;
    const bool isMore = windows > (kLargestCount - log.cap) / std::max<std::int64_t>(limit, 1);
    return isMore ? kLargestCount : log.cap + limit * windows;
}

/// True if one call may ask both, so that a reservation of one is an entry in the log of the other.
bool areAskedTogether(const LocationSettings& level, const LimitSettings& one, const LimitSettings& other) {
    const bool isRehearsed = level.isRehearsed(one);
    const bool isAlone = isRehearsed && level.dryRun == 0;
    const bool mayBeRehearsed = one.log->override != OverrideBy::None || other.log->override != OverrideBy::None;
    return &one == &other || (level.dryRun != 0 && mayBeRehearsed) ||
           (!isAlone && isRehearsed == level.isRehearsed(other));
}

Check preparedCheck(const LimitSettings& limit) {
    const LogSettings& log = *limit.log;
    const bool isRefunded = limit.refunds && limit.refund[NGX_HTTP_CLIENT_CLOSED_REQUEST];
    Check check;
    check.algorithm = log.algorithm;
    check.named = limit.id != nullptr;
    check.limit = limit.limit;
    check.windowMs = log.windowMs;
    check.cap = log.longest;
    check.ttlMs = log.ttlMs();
    check.cost = limit.cost;
    check.countsAll = limit.countsAll;
    check.leavesWithClient = isRefunded || traitsOf(log.algorithm).countsUnderWay;
    check.delayMs = limit.reservesMs();
    check.aheadMs = log.aheadMs;
    check.blockMs = limit.blockMs;
    check.blockTimes = limit.blockTimes;
    check.escalates = log.escalates != 0;
    check.sample = log.sample;
    check.prefetch = limit.cost > 0 ? limit.prefetch : 1;
    check.permitLifeMs = log.permitLifeMs;
    if (takes(log.algorithm, Parameter::Burst)) {
        check.burst = limit.burst > 0 ? limit.burst : limit.limit;
    }
    return check;
}

/// Whether a resolver has name servers: nginx has an array of connections to them, Angie a list.
template <typename Connections>
bool hasAny(const Connections& connections) {
    if constexpr (std::is_pointer_v<Connections>) {
        return connections != nullptr;
    } else {
        return connections.nelts > 0;
    }
}

}  // namespace

char* finalizeLimits(ngx_conf_t* cf, void* conf) {
    auto& main = *static_cast<MainSettings*>(conf);
    auto** limits = static_cast<LimitSettings**>(main.limits.elts);
    for (ngx_uint_t i = 0; i < main.limits.nelts; i++) {
        if (finalizeStore(cf, main, *limits[i]) != kConfOk || finalizeCap(cf, *limits[i]) != kConfOk) {
            return kConfError;
        }
        warnOfForgottenDollar(cf, *limits[i]);
        warnOfUselessPrefetch(cf, *limits[i]);
        warnOfUselessOverride(cf, *limits[i]);
        warnOfShrinkingBlocks(cf, *limits[i]);
    }
    // without a resolver directive nginx sets a resolver that has no name servers
    const auto* core =
        static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    const bool resolves = core->resolver != nullptr && hasAny(core->resolver->connections);
    for (RedisSettings* each : main.allStores()) {
        each->resolver = resolves ? core->resolver : nullptr;
    }
    ngx_conf_init_size_value(main.zoneSize, kDefaultZoneSize);
    if (main.limits.nelts > 0) {
        main.zone = declareZone(cf, main.zoneSize);
        if (main.zone == nullptr) {
            return kConfError;
        }
        main.zone->hasPermits = std::ranges::any_of(std::span(limits, main.limits.nelts),
                                                    [](const LimitSettings* limit) { return limit->prefetch > 1; });
        main.zone->hasOverrides =
            std::ranges::any_of(std::span(limits, main.limits.nelts),
                                [](const LimitSettings* limit) { return limit->log->override == OverrideBy::Key; });
    }
    return kConfOk;
}

void finalizeReservations(const MainSettings& main) {
    for (LogSettings* log : std::span(static_cast<LogSettings**>(main.logs.elts), main.logs.nelts)) {
        const auto hasClockOfNodes = [](const RedisSettings* each) {
            return each->clock == static_cast<ngx_uint_t>(Clock::Nginx);
        };
        if (std::ranges::any_of(log->homes, hasClockOfNodes)) {
            log->aheadMs = log->permitLifeMs;  // so that the time of a permit is not taken for that of a decision
        }
    }
    const std::span levels(static_cast<const LocationSettings* const*>(main.levels.elts), main.levels.nelts);
    for (const LocationSettings* level : levels) {
        for (const LimitSettings* limit : level->allLimits()) {
            const auto reservesIn = [&](const LimitSettings* each) {
                return each->reservesMs() > 0 && areAskedTogether(*level, *limit, *each);
            };
            if (std::ranges::any_of(level->allLimits(), reservesIn)) {
                LogSettings& log = *limit->log;
                if (log.mayBeInRedis() && traitsOf(log.algorithm).queues) {
                    continue;  // its calls are its own, and reserve nothing
                }
                log.aheadMs = std::max(log.aheadMs, main.largestDelay);
                log.longest = log.cap == 0 ? 0 : withReservations(log);
            }
        }
    }
}

void prepareChecks(const MainSettings& main) {
    for (LimitSettings* limit : std::span(static_cast<LimitSettings**>(main.limits.elts), main.limits.nelts)) {
        limit->check = preparedCheck(*limit);
    }
}

}  // namespace sliding_log
