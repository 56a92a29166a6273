#include "plan.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace simulate {

namespace {

constexpr Time kHour = 3600 * kSecond;

constexpr std::array<std::string_view, 6> kNames = {"log", "compact", "counter", "bucket", "quota", "inflight"};

std::string directive(const Limit& limit, bool isOther) {
    std::ostringstream out;
    out << "sliding_log_limit " << limit.name << " store=" << (limit.homes > 1 ? "$home" : "s") << limit.store
        << " key=$arg_k limit=" << (isOther ? limit.otherwise : limit.limit)
        << " algorithm=" << kNames[static_cast<std::size_t>(limit.algorithm)];
    if (limit.algorithm == Algorithm::Quota) {
        out << " period=" << (limit.window == kHour ? "hour" : "day");
    } else {
        out << (limit.algorithm == Algorithm::Inflight ? " lease=" : " window=") << limit.window / kMs << "ms";
    }
    out << (limit.hasCost ? " cost=$cost" : "") << (limit.refunds ? " refund=5xx" : "")
        << (limit.countsAll ? " count=all" : "") << (limit.settles ? " settle=$upstream_http_x_cost" : "")
        << (limit.isDry ? " dry_run=on" : "")
        << (limit.hasOverride ? " override=on"
            : limit.obeysName ? " override=name"
                              : "");
    if (limit.delay > 0) {
        out << " delay=" << limit.delay / kMs << "ms";
    }
    if (limit.block > 0) {
        out << " block=" << limit.block / kMs << "ms";
    }
    if (limit.prefetch > 1) {
        out << " prefetch=" << limit.prefetch;
    }
    out << ";";
    return out.str();
}

Limit drawLimit(Random& random, std::size_t number) {
    Limit limit;
    limit.name = "n" + std::to_string(number);
    limit.algorithm =
        random.once(2) ? static_cast<Algorithm>(random.below(kNames.size())) : static_cast<Algorithm>(random.below(2));
    limit.limit = random.once(3) ? random.between(1, 5) : random.between(5, 60);
    limit.window = random.between(1, 8) * 500 * kMs;
    limit.otherwise = random.once(3) ? random.between(1, 60) : limit.limit;
    limit.obeysName = random.once(6);
    if (limit.algorithm == Algorithm::Inflight) {
        limit.window = random.between(1, 6) * kSecond;
        limit.delay = random.once(3) ? random.between(1, 20) * 50 * kMs : 0;
        return limit;
    }
    if (limit.isExact() && random.once(4)) {
        limit.limit = random.between(20, 100);
        limit.otherwise = random.once(3) ? random.between(20, 100) : limit.limit;
        limit.prefetch = random.between(2, limit.least() / 5);
        return limit;
    }
    if (limit.algorithm == Algorithm::Quota) {
        limit.window = kHour;
    }
    limit.isDry = random.once(12);
    limit.hasOverride = random.once(8);
    limit.obeysName = limit.obeysName || limit.hasOverride;
    limit.hasCost = random.once(4);
    limit.settles = limit.algorithm != Algorithm::Log && random.once(5);
    limit.refunds = !limit.settles && random.once(4);
    if (limit.isExact()) {
        limit.countsAll = !limit.settles && random.once(8);
        limit.delay = random.once(6) ? random.between(1, 10) * 50 * kMs : 0;
        limit.block = limit.delay == 0 && random.once(8) ? random.between(1, 8) * 250 * kMs : 0;
    }
    return limit;
}

bool needsUpstream(const Limit& limit) {
    return limit.refunds || limit.settles || limit.algorithm == Algorithm::Inflight;
}

/// The first two limits are of one algorithm, without options, and a location has both alone: scripts have a short way
/// for these, and one call has both, which a cluster may refuse while their slot moves.
void drawPair(Random& random, Plan& plan) {
    constexpr std::array kAlgorithms = {Algorithm::Log, Algorithm::Compact, Algorithm::Inflight};
    const Algorithm algorithm = kAlgorithms[random.below(kAlgorithms.size())];
    plan.limits.resize(std::max<std::size_t>(plan.limits.size(), 2));
    for (std::size_t i = 0; i < 2; i++) {
        Limit limit;
        limit.name = "n" + std::to_string(i);
        limit.store = plan.limits[0].store;
        limit.homes = plan.limits[0].homes;
        limit.algorithm = algorithm;
        limit.limit = random.between(1, 40);
        limit.otherwise = random.once(3) ? random.between(1, 40) : limit.limit;
        limit.window =
            algorithm == Algorithm::Inflight ? random.between(1, 6) * kSecond : random.between(1, 8) * 500 * kMs;
        plan.limits[i] = limit;
    }
    plan.locations[0].limits = {0, 1};
    if (random.once(2)) {
        for (StorePlan& store : plan.stores) {
            store.isNativeOff = true;
            store.scripts = Scripts::ByLua;
        }
    }
}

/// A location whose requests go on to the first one. A limit that both have is asked once.
void drawRedirect(Random& random, Plan& plan) {
    const Location& target = plan.locations[0];
    const auto isOfTarget = [&](std::size_t limit) { return std::ranges::count(target.limits, limit) > 0; };
    Location location;
    location.path = "/redirected";
    location.redirectsTo = target.path;
    for (std::size_t limit = 0; limit < plan.limits.size(); limit++) {
        if (random.once(isOfTarget(limit) ? 4 : 2)) {
            location.limits.push_back(limit);
        }
    }
    const std::vector<std::size_t> own = location.limits;
    location.limitsBefore = own.size();
    std::ranges::copy_if(target.limits, std::back_inserter(location.limits),
                         [&](std::size_t limit) { return std::ranges::count(own, limit) == 0; });
    if (!own.empty()) {
        plan.locations.push_back(std::move(location));
    }
}

Plan drawAny(Random random) {
    Plan plan;
    plan.nodes = 1 + random.below(4);
    plan.workers = 1 + random.below(3);
    plan.stores.resize(random.once(4) ? 2 : 1);
    for (StorePlan& store : plan.stores) {
        store.servers = random.once(3) ? 2 + random.below(2) : 1;
        store.replicas = random.once(3) ? 1 + random.below(2) : 0;
        store.needsReplica = store.replicas > 0 && random.once(3);
        store.isNativeOff = random.once(3);
        store.hasNative = random.once(2);
        store.scripts = random.once(6) ? Scripts::ByLua : Scripts::ByNative;
        store.hasPassword = random.once(4);
    }
    plan.keys = random.once(3) ? 1 + random.below(3) : 1 + random.below(40);
    plan.delay = plan.delayOfNear = random.between(20, 400) * kUs;
    const bool isFar = random.once(8);
    if (isFar && plan.nodes > 1 && random.once(2)) {  // each region has some nodes, and maybe a store
        plan.regions = 2 + random.below(2);
        plan.delay = random.between(20, 80) * kMs;
    } else if (isFar) {  // all is in another region
        plan.delay = plan.delayOfNear = random.between(20, 50) * kMs;
    }
    plan.timeout = isFar ? 3 * kSecond : random.between(1, 4) * 50 * kMs;
    constexpr std::array<std::string_view, 4> kOnError = {"local", "local nodes=3", "allow", "deny"};
    plan.onError = kOnError[random.below(kOnError.size())];
    const std::size_t limits = 1 + random.below(4);
    for (std::size_t i = 0; i < limits; i++) {
        plan.limits.push_back(drawLimit(random, i));
        Limit& limit = plan.limits.back();
        limit.store = random.below(plan.stores.size());
        if (isFar && limit.prefetch > 1) {  // so that permits live for several round trips
            limit.window = random.between(10, 60) * kSecond;
            limit.limit = limit.otherwise = random.between(100, 2000);
            limit.prefetch = random.between(2, 100);
        }
        if (random.once(2)) {
            limit.homes = plan.stores.size();
            limit.obeysName = limit.hasOverride || (limit.obeysName && limit.homes == 1);
        }
    }
    const std::size_t locations = 1 + random.below(4);
    for (std::size_t i = 0; i < locations; i++) {
        Location location;
        location.path = "/" + std::to_string(i);
        location.isProxied = random.once(2);
        for (std::size_t limit = 0; limit < limits; limit++) {
            if (location.limits.empty() ? limit + 1 == limits || random.once(2) : random.once(4)) {
                location.limits.push_back(limit);
            }
        }
        plan.locations.push_back(std::move(location));
    }
    if (random.once(std::ranges::any_of(plan.stores, &StorePlan::isCluster) ? 2 : 5)) {
        drawPair(random, plan);
    }
    if (random.once(2)) {
        drawRedirect(random, plan);
    }
    for (Location& location : plan.locations) {
        const bool needs =
            std::ranges::any_of(location.limits, [&](std::size_t limit) { return needsUpstream(plan.limits[limit]); });
        location.isProxied = location.isProxied || needs;
    }
    if (Location& last = plan.locations.back(); !last.redirectsTo.empty()) {
        last.isProxied = plan.locations[0].isProxied = last.isProxied || plan.locations[0].isProxied;
    }
    for (StorePlan& store : plan.stores) {
        store.hasName = !store.isCluster() && store.replicas == 0 && random.once(3);
    }
    plan.hasOtherZone = random.once(3);
    for (StorePlan& store : plan.stores) {
        store.isReplaced = !store.isCluster() && store.replicas == 0 && !store.hasName && random.once(2);
    }
    return plan;
}

/// Up to minutes between two requests, and windows of minutes to days.
void slowDown(Random& random, Plan& plan) {
    constexpr std::array<std::int64_t, 4> kSlowness = {100, 1000, 10'000, 40'000};
    constexpr Time kMostWindow = 48 * kHour;
    plan.slowness = std::min(kSlowness[random.below(kSlowness.size())], kMostWindow / plan.longestWindow());
    for (Limit& limit : plan.limits) {
        if (limit.algorithm == Algorithm::Quota) {
            limit.window *= random.once(2) ? 24 : 1;
        } else {
            limit.window *= limit.algorithm == Algorithm::Inflight ? plan.longerAnswers() : plan.slowness;
        }
        limit.block *= plan.slowness;
    }
    for (StorePlan& store : plan.stores) {
        store.lag *= 100;  // else replicas follow 400 times a second, for days
    }
}

/// Logs of up to 100,000 entries, made by costs of up to 1,000, which is the most that `log` takes.
void enlarge(Random& random, Plan& plan) {
    constexpr std::int64_t kMostEntries = 100'000;
    plan.ofCost = random.between(2, 1000 / kMostCost);
    plan.keys = 1 + random.below(3);
    for (Limit& limit : plan.limits) {
        limit.hasCost = limit.hasCost || (limit.isExact() && limit.prefetch == 1);
        limit.window *= limit.isExact() && limit.prefetch == 1 ? random.between(1, 4) : 1;
        if (limit.hasCost || limit.settles) {
            limit.limit = plan.ofCost * random.between(1, kMostEntries / plan.ofCost);
            limit.otherwise =
                random.once(3) ? plan.ofCost * random.between(1, kMostEntries / plan.ofCost) : limit.limit;
        }
    }
}

bool isOf(const Plan& plan, Kind kind) {
    const auto hasStore = [&](auto which) { return std::ranges::any_of(plan.stores, which); };
    switch (kind) {
        case Kind::Any:
        case Kind::Slow:
        case Kind::Large:
            return true;
        case Kind::Standalone:
            return hasStore([](const StorePlan& store) { return !store.isCluster() && store.replicas == 0; });
        case Kind::Sentinel:
            return hasStore([](const StorePlan& store) { return !store.isCluster() && store.replicas > 0; });
        case Kind::Cluster:
            return hasStore(&StorePlan::isCluster);
        case Kind::Regions:
            return plan.regions > 1;
        case Kind::Permits:
            return std::ranges::any_of(plan.limits, [](const Limit& limit) { return limit.prefetch > 1; });
        case Kind::Names:
            return hasStore(&StorePlan::hasName);
        case Kind::Replaced:
            return hasStore(&StorePlan::isReplaced);
        case Kind::Queues:
            return std::ranges::any_of(plan.limits, [](const Limit& limit) { return limit.delay > 0; });
    }
    return false;
}

constexpr std::array<std::pair<std::string_view, Kind>, 11> kKindNames = {{{"any", Kind::Any},
                                                                           {"standalone", Kind::Standalone},
                                                                           {"sentinel", Kind::Sentinel},
                                                                           {"cluster", Kind::Cluster},
                                                                           {"regions", Kind::Regions},
                                                                           {"permits", Kind::Permits},
                                                                           {"queues", Kind::Queues},
                                                                           {"names", Kind::Names},
                                                                           {"replaced", Kind::Replaced},
                                                                           {"slow", Kind::Slow},
                                                                           {"large", Kind::Large}}};

}  // namespace

std::optional<Kind> kindNamed(std::string_view name) {
    const auto found = std::ranges::find(kKindNames, name, &std::pair<std::string_view, Kind>::first);
    return found == kKindNames.end() ? std::nullopt : std::optional(found->second);
}

std::string_view nameOf(Kind kind) {
    return std::ranges::find(kKindNames, kind, &std::pair<std::string_view, Kind>::second)->first;
}

/// Draws until one is of that kind.
Plan drawPlan(Random random, Kind kind) {
    Plan plan = drawAny(random.branch());
    while (!isOf(plan, kind)) {
        plan = drawAny(random.branch());
    }
    if (kind == Kind::Slow) {
        slowDown(random, plan);
    } else if (kind == Kind::Large) {
        enlarge(random, plan);
    }
    return plan;
}

Time Plan::longestWindow() const {
    Time longest = kSecond;
    for (const Limit& limit : limits) {
        longest = limit.algorithm == Algorithm::Quota ? longest : std::max(longest, limit.window);
    }
    return longest;
}

std::size_t Plan::scripts() const {
    std::set<Algorithm> used;
    for (const Limit& limit : limits) {
        used.insert(limit.algorithm);
    }
    return used.size();
}

Time Plan::quiet() const {
    return 2 * std::max({longestWindow(), longerAnswers() * kLongestAnswer, slowness * kLongestRecord}) + 10 * kSecond;
}

std::string Plan::configuration(const std::vector<std::string>& servers, Address upstream, const std::string& errorLog,
                                bool isOther) const {
    const bool isWaitedFor =
        delay >= 20 * kMs || std::ranges::any_of(limits, [](const Limit& limit) { return limit.delay > 0; });
    std::ostringstream out;
    out << "user root; daemon off; master_process off; error_log " << errorLog
        << "; worker_shutdown_timeout 20s;\n"
           "events { use epoll; accept_mutex off; multi_accept off; worker_connections "
        << (isWaitedFor ? 8192 : 512)  // where requests wait for long, there are many
        << "; }\n"
           "http {\n"
           "access_log off; keepalive_requests 1000000; keepalive_timeout 60s; proxy_http_version 1.1; "
           "proxy_read_timeout 1h; "
           "proxy_next_upstream off;\n"
           "sliding_log_zone "
        << (isOther && hasOtherZone ? "1028k" : "1m") << "; sliding_log_on_error " << onError << ";\n";
    if (std::ranges::any_of(stores, &StorePlan::hasName)) {
        out << "resolver " << textOf(kNameServer.host) << " ipv6=off;\n";
    }
    for (std::size_t i = 0; i < stores.size(); i++) {
        out << "sliding_log_redis s" << i << " { " << servers[i] << " timeout " << timeout / kMs
            << "ms; connect_timeout " << timeout / kMs << "ms; reconnect 20ms 500ms; "
            << (stores[i].isNativeOff ? "native off; " : "") << "}\n";
    }
    out << "upstream app { server " << textOf(upstream.host) << ':' << upstream.port
        << " max_fails=0; keepalive 16; }\n"
           "add_header X-Source $sliding_log_source always; add_header X-Name $sliding_log_name always;\n";
    if (std::ranges::any_of(locations, [](const Location& each) { return each.limits.size() > 1; })) {
        out << "add_header X-Sources '-";  // a field does not begin with a blank
        for (std::size_t i = 0; i < limits.size(); i++) {
            const auto hasIt = [i](const Location& each) { return std::ranges::count(each.limits, i) > 0; };
            if (std::ranges::any_of(locations, hasIt)) {
                out << ' ' << limits[i].name << "=$sliding_log_source_" << limits[i].name;
            }
        }
        out << "' always;\n";
    }
    out << "map $arg_c $cost {";
    for (std::int64_t cost = 0; cost <= kMostCost; cost++) {
        out << ' ' << cost * ofCost << ' ' << cost * ofCost << ';';
    }
    out << " }\n";
    for (std::size_t first = 0; first < stores.size(); first++) {
        out << "map $arg_k $home" << first << " {";
        for (std::size_t key = 0; key < keys; key++) {
            out << ' ' << key << " s" << (first + key) % stores.size() << ';';
        }
        out << " }\n";
    }
    out << "server { listen " << kHttp << "; listen " << kHttp2 << " http2;\n";
    // without these, workers would connect to a home with the first request of one of its keys, and on_error decide
    // that one
    out << "location = /none {";
    for (std::size_t i = 0; i < stores.size(); i++) {
        out << " sliding_log_limit none" << i << " key=none limit=1 window=1s store=s" << i << ';';
    }
    out << " }\n";
    for (const Location& location : locations) {
        out << "location = " << location.path << " {";
        const bool redirects = !location.redirectsTo.empty();
        const std::size_t own = redirects ? location.limitsBefore : location.limits.size();
        for (const std::size_t limit : location.limits | std::views::take(own)) {
            out << ' ' << directive(limits[limit], isOther);
        }
        if (redirects) {
            out << " root /nonexistent; try_files /nonexistent " << location.redirectsTo << "?$args; }\n";
        } else {
            out << (location.isProxied ? " proxy_set_header Connection ''; proxy_pass http://app; }\n"
                                       : " empty_gif; }\n");
        }
    }
    out << "}\n}\n";
    return out.str();
}

}  // namespace simulate
