#include "dashboard/data.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "dashboard/json.hpp"
#include "limit/calendar.hpp"
#include "limit/store_directive.hpp"
#include "local/zone.hpp"
#include "pages/snapshot.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

constexpr std::size_t kMostKeys = 20;  // of each list

/// The largest used part of its limit, in thousandths, of all keys seen within the window.
unsigned fullest(const std::vector<TopKeys::Key>& keys, const LogSettings& log) {
    unsigned most = 0;
    for (const TopKeys::Key& key : keys) {
        const auto age = static_cast<ngx_msec_int_t>(nowMs() - key.seenMs);
        if (key.limit == view(log.name) && age <= log.windowMs) {
            most = std::max(most, key.used);
        }
    }
    return most;
}

/// The members of a record in force.
void writeOverride(Json& out, const Override& override) {
    out.name("what").text(wordOf(override.what));
    out.name("value");
    override.what != Override::What::Limit ? out.null() : out.number(static_cast<std::uint64_t>(override.limit));
    out.name("until_ms");
    override.untilMs == 0 ? out.null() : out.number(static_cast<std::uint64_t>(override.untilMs));
}

/// Of the whole NAME, those in force.
void writeRecords(Json& out, const LogSettings& log) {
    out.beginList();
    for (const RedisSettings* home : log.homes) {
        if (const Override override = worker().overrideOf(log, home); override.isInForce()) {
            out.beginObject();
            out.name("store").text(view(home->name));
            writeOverride(out, override);
            out.endObject();
        }
    }
    out.endList();
}

/// As configured, if each request has its own.
std::string_view storeOf(const LogSettings& log) {
    if (log.finalizedBy->storeVariable != nullptr) {
        return view(log.finalizedBy->store);
    }
    return log.homes.empty() ? kLocalStore : view(log.homes.front()->name);
}

void writeLimit(Json& out, const LogSettings& log, const LimitCounters& counters, unsigned used) {
    out.beginObject();
    out.name("name").text(view(log.name));
    out.name("algorithm").text(nameOf(log.algorithm));
    out.name("store").text(storeOf(log));
    out.name("stores").beginList();
    for (const RedisSettings* home : log.homes) {
        out.text(view(home->name));
    }
    out.endList();
    out.name("limit");
    log.variableLimit != 0 ? out.null() : out.number(static_cast<std::uint64_t>(log.largestLimit));
    out.name("burst");
    log.largestBurst == 0 ? out.null() : out.number(static_cast<std::uint64_t>(log.largestBurst));
    out.name("window_ms").number(static_cast<std::uint64_t>(log.windowMs));
    out.name("period");
    traitsOf(log.algorithm).countsPeriods ? out.text(nameOfPeriod(log.windowMs)) : out.null();
    out.name("at_once").boolean(traitsOf(log.algorithm).countsUnderWay);
    out.name("dry_run").boolean(log.enforced == 0);
    out.name("requests").beginObject();
    for (std::size_t result = 0; result < std::size(kResultNames); result++) {
        out.name(kResultNames[result]).beginObject();
        for (std::size_t source = 0; source < std::size(kSourceNames); source++) {
            out.name(kSourceNames[source]).number(counters.decided[result][source].get());
        }
        out.endObject();
    }
    out.endObject();
    out.name("near_limit").number(counters.nearLimit.get());
    out.name("fullest_permille").number(used);
    out.name("records");
    writeRecords(out, log);
    out.endObject();
}

void writeLatency(Json& out, const Histogram& latency) {
    out.beginObject().name("le_us").beginList();
    for (const Histogram::Bucket& bucket : Histogram::kBuckets) {
        out.number(bucket.mostNs / 1000);
    }
    out.endList().name("counts").beginList();  // cumulative; the last one is of all
    for (const std::uint64_t count : latency.cumulated()) {
        out.number(count);
    }
    out.endList().endObject();
}

void writeServer(Json& out, const Snapshot::ServerState& server) {
    const ServerCounters& counters = *server.counters;
    out.beginObject();
    out.name("store").text(server.store());
    out.name("node").text(server.name());
    out.name("up");
    server.reachability == Reachability::Unknown ? out.null() : out.boolean(server.reachability == Reachability::Up);
    out.name("native").boolean(counters.usesNative.load(std::memory_order_relaxed));
    out.name("calls").number(counters.calls.get());
    out.name("requests").number(counters.requests.get());
    out.name("permits").number(counters.permits.get());
    out.name("permits_returned").number(counters.returnedPermits.get());
    out.name("errors").beginObject();
    for (std::size_t error = 1; error < kStoreErrors; error++) {
        out.name(kStoreErrorNames[error]).number(counters.errors[error].get());
    }
    out.endObject();
    out.name("latency");
    writeLatency(out, counters.latency);
    out.name("redis");
    if (server.healthKnown) {
        out.beginObject();
        out.name("memory_used_bytes").number(get(counters.health.memoryUsed));
        out.name("memory_max_bytes").number(get(counters.health.memoryMax));
        out.name("evicted_keys").number(get(counters.health.evictedKeys));
        out.name("eviction_unsafe").boolean(counters.health.evictionUnsafe.load(std::memory_order_relaxed));
        out.endObject();
    } else {
        out.null();
    }
    out.endObject();
}

void writeKeys(Json& out, const std::vector<TopKeys::Key>& keys) {
    out.beginList();
    for (std::size_t i = 0; i < std::min(keys.size(), kMostKeys); i++) {
        out.beginObject();
        out.name("limit").text(keys[i].limit);
        out.name("key").text(keys[i].value);
        out.name("requests").number(keys[i].requests);
        out.name("used_permille").number(keys[i].used);
        out.endObject();
    }
    out.endList();
}

void writeOverrides(Json& out, const std::vector<SeenOverrides::Seen>& overrides) {
    out.beginList();
    for (const SeenOverrides::Seen& seen : overrides) {
        out.beginObject();
        out.name("limit").text(seen.limit);
        out.name("key").text(seen.value);
        writeOverride(out, seen.override);
        out.name("seen_ms").number(seen.seenMs);
        out.endObject();
    }
    out.endList();
}

}  // namespace

std::string dashboardData(const MainSettings& main) {
    const Snapshot snapshot = takeSnapshot(main);
    const bool runs = hasWorker();
    const std::vector<TopKeys::Key> used = runs ? worker().usedKeys().list() : std::vector<TopKeys::Key>();
    Json out;
    out.beginObject();
    out.name("host").text(view(processCycle().hostname));
    out.name("now_ms").number(nowMs());  // of a monotonic clock
    out.name("limits").beginList();
    for (const LogSettings* log : snapshot.logs) {
        if (const LimitCounters& counters = worker().counters(*log); !counters.names.first().empty()) {
            writeLimit(out, *log, counters, fullest(used, *log));
        }
    }
    out.endList();
    out.name("stores").beginList();
    for (const Snapshot::ServerState& server : snapshot.servers) {
        writeServer(out, server);
    }
    out.endList();
    out.name("zone");
    if (snapshot.zone == nullptr) {
        out.null();
    } else {
        out.beginObject();
        out.name("bytes").number(snapshot.zoneSize);
        out.name("free_bytes").number(snapshot.zone->freeBytes());
        out.endObject();
    }
    out.name("denied_keys");
    writeKeys(out, runs ? worker().deniedKeys().list() : std::vector<TopKeys::Key>());
    out.name("used_keys");
    writeKeys(out, used);
    out.name("overrides");
    writeOverrides(out, runs ? worker().overrides().list(nowMs(), wallClockMs()) : std::vector<SeenOverrides::Seen>());
    out.endObject();
    return out.view();
}

}  // namespace sliding_log
