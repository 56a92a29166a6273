#include "pages/metrics_page.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "conf/page_location.hpp"
#include "local/zone.hpp"
#include "metrics/exposition.hpp"
#include "metrics/own_file.hpp"
#include "pages/response.hpp"
#include "pages/snapshot.hpp"
#include "this_process.hpp"
#include "version.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

/// Every series that this limit can have exists from the start, so that rates include its first request.
bool canBe(const LogSettings& log, Source source) {
    if (source == Source::Invalid) {
        return log.mayBeInvalid != 0;
    }
    if (source == Source::Prefetch) {
        return log.mayBeInRedis() && log.permitLifeMs > 0;
    }
    if (source == Source::Override) {
        return log.obeysName();
    }
    return log.mayBeInRedis() || source == Source::Local || source == Source::Error;
}

/// A counter of each limit that may have it and has counted something.
void writeOfLimits(Exposition& out, const Snapshot& snapshot, std::string_view name, std::string_view help,
                   Counter LimitCounters::*counter, bool (*hasIt)(const LogSettings&)) {
    out.family(name, "counter", help);
    for (const LogSettings* log : snapshot.logs) {
        const LimitCounters& counters = worker().counters(*log);
        if (hasIt(*log) && !counters.names.first().empty()) {
            out.sample(name, {{"limit", counters.names.first()}}, (counters.*counter).get());
        }
    }
}

void writeLimits(Exposition& out, const Snapshot& snapshot) {
    out.family("sliding_log_requests_total", "counter",
               "Requests to which the limit applied, by result and by what decided.");
    for (const LogSettings* log : snapshot.logs) {
        LimitCounters& counters = worker().counters(*log);
        if (counters.names.first().empty()) {
            continue;  // omitted
        }
        for (std::size_t result = 0; result < std::size(kResultNames); result++) {
            for (std::size_t source = 0; source < std::size(kSourceNames); source++) {
                if (canBe(*log, static_cast<Source>(source))) {
                    out.sample("sliding_log_requests_total",
                               {{"limit", counters.names.first()},
                                {"result", kResultNames[result]},
                                {"source", kSourceNames[source]}},
                               counters.decided[result][source].get());
                }
            }
        }
    }
    const auto each = [](const LogSettings&) { return true; };
    writeOfLimits(out, snapshot, "sliding_log_near_limit_total", "Requests admitted at 80 % of the limit or more.",
                  &LimitCounters::nearLimit, each);
    writeOfLimits(out, snapshot, "sliding_log_new_logs_total",
                  "Admitted requests that were the first ones in their logs.", &LimitCounters::newLogs, each);
}

void writeOverridden(Exposition& out, const Snapshot& snapshot) {
    writeOfLimits(out, snapshot, "sliding_log_overridden_total",
                  "Decisions by a record of override=on: another limit, allowed or denied.", &LimitCounters::overridden,
                  [](const LogSettings& log) { return log.obeysKeys(); });
}

void writeActiveRecords(Exposition& out, const Snapshot& snapshot) {
    out.family("sliding_log_override_active", "gauge", "Whether a record of the whole NAME is in force (override=).");
    for (const LogSettings* log : snapshot.logs) {
        if (log->obeysName()) {
            const auto isInForce = [&](const RedisSettings* home) {
                return worker().overrideOf(*log, home).isInForce();
            };
            out.sample("sliding_log_override_active", {{"limit", view(log->name)}},
                       std::ranges::any_of(log->homes, isInForce) ? 1 : 0);
        }
    }
}

void writeLatency(Exposition& out, const Snapshot& snapshot) {
    out.family("sliding_log_store_latency_seconds", "histogram", "Time from sending a call to the store to its reply.");
    for (const Snapshot::ServerState& each : snapshot.servers) {
        const Histogram& latency = each.counters->latency;
        const auto counts = latency.cumulated();
        const auto bucket = [&](std::string_view most, std::uint64_t count) {
            out.sample("sliding_log_store_latency_seconds_bucket",
                       {{"store", each.store()}, {"node", each.name()}, {"le", most}}, count);
        };
        for (std::size_t i = 0; i < Histogram::kBucketCount; i++) {
            bucket(Histogram::kBuckets[i].text, counts[i]);
        }
        bucket("+Inf", counts.back());
        const Exposition::Labels labels = {{"store", each.store()}, {"node", each.name()}};
        out.sampleNs("sliding_log_store_latency_seconds_sum", labels, latency.sumNs());
        out.sample("sliding_log_store_latency_seconds_count", labels, counts.back());
    }
}

/// A family with one sample for each server that has it.
template <typename Has, typename Value>
void writeServers(Exposition& out, const Snapshot& snapshot, std::string_view name, std::string_view type,
                  std::string_view help, Has has, Value value) {
    out.family(name, type, help);
    for (const Snapshot::ServerState& each : snapshot.servers) {
        if (has(each)) {
            out.sample(name, {{"store", each.store()}, {"node", each.name()}}, value(*each.counters));
        }
    }
}

void writeCalls(Exposition& out, const Snapshot& snapshot) {
    const auto always = [](const Snapshot::ServerState&) { return true; };
    writeServers(out, snapshot, "sliding_log_store_calls_total", "counter", "Calls sent to the store.", always,
                 [](const ServerCounters& counters) { return counters.calls.get(); });
    writeServers(out, snapshot, "sliding_log_store_requests_total", "counter", "Requests in calls sent to the store.",
                 always, [](const ServerCounters& counters) { return counters.requests.get(); });
    out.family("sliding_log_store_errors_total", "counter", "Requests that the store did not decide, by reason.");
    for (const Snapshot::ServerState& each : snapshot.servers) {
        for (std::size_t error = 1; error < kStoreErrors; error++) {
            out.sample("sliding_log_store_errors_total",
                       {{"store", each.store()}, {"node", each.name()}, {"reason", kStoreErrorNames[error]}},
                       each.counters->errors[error].get());
        }
    }
    writeServers(out, snapshot, "sliding_log_store_permits_total", "counter", "Permits granted by the store.", always,
                 [](const ServerCounters& counters) { return counters.permits.get(); });
    writeServers(out, snapshot, "sliding_log_store_permits_returned_total", "counter",
                 "Unused permits returned to the store.", always,
                 [](const ServerCounters& counters) { return counters.returnedPermits.get(); });
    writeServers(out, snapshot, "sliding_log_store_take_backs_lost_total", "counter",
                 "Entries that were not given back or not settled; they count as logged until they leave the window.",
                 always, [](const ServerCounters& counters) { return counters.lostTakeBacks.get(); });
    writeLatency(out, snapshot);
}

void writeHealth(Exposition& out, const Snapshot& snapshot) {
    out.family("sliding_log_store_up", "gauge", "1 if the server is reached by every worker that needs it.");
    for (const Snapshot::ServerState& each : snapshot.servers) {
        if (each.reachability != Reachability::Unknown) {
            out.sample("sliding_log_store_up", {{"store", each.store()}, {"node", each.name()}},
                       each.reachability == Reachability::Up ? 1 : 0);
        }
    }
    writeServers(
        out, snapshot, "sliding_log_store_native", "gauge",
        "1 where the native module of Redis decides; 0: the scripts.",
        [](const Snapshot::ServerState& each) { return each.reachability != Reachability::Unknown; },
        [](const ServerCounters& counters) {
            return std::uint64_t{counters.usesNative.load(std::memory_order_relaxed)};
        });
    const auto isKnown = [](const Snapshot::ServerState& each) { return each.healthKnown; };
    writeServers(out, snapshot, "sliding_log_redis_memory_used_bytes", "gauge", "Memory allocated by Redis.", isKnown,
                 [](const ServerCounters& counters) { return get(counters.health.memoryUsed); });
    writeServers(out, snapshot, "sliding_log_redis_memory_max_bytes", "gauge", "The maxmemory of Redis; 0: unlimited.",
                 isKnown, [](const ServerCounters& counters) { return get(counters.health.memoryMax); });
    writeServers(out, snapshot, "sliding_log_redis_evicted_keys_total", "counter", "Keys evicted by Redis.", isKnown,
                 [](const ServerCounters& counters) { return get(counters.health.evictedKeys); });
    writeServers(out, snapshot, "sliding_log_redis_eviction_unsafe", "gauge",
                 "1 if the maxmemory-policy of Redis can evict live logs.", isKnown,
                 [](const ServerCounters& counters) {
                     return std::uint64_t{counters.health.evictionUnsafe.load(std::memory_order_relaxed)};
                 });
}

void writeZone(Exposition& out, const Snapshot& snapshot) {
    out.family("sliding_log_zone_bytes", "gauge", "Size of the shared memory zone.");
    if (snapshot.zone != nullptr) {
        out.sample("sliding_log_zone_bytes", {}, snapshot.zoneSize);
    }
    out.family("sliding_log_zone_free_bytes", "gauge",
               "Free memory of the zone, including free memory in pages of local logs.");
    if (snapshot.zone != nullptr) {
        out.sample("sliding_log_zone_free_bytes", {}, snapshot.zone->freeBytes());
    }
}

void writeBuild(Exposition& out) {
    out.family("sliding_log_build_info", "gauge", "Always 1; the label is the version of the module.");
    out.sample("sliding_log_build_info", {{"version", kVersion}}, 1);
    out.family("sliding_log_module_replaced", "gauge", "1 if the installed file of the module is not the loaded one.");
    if (const std::optional<bool> replaced = isOwnFileReplaced()) {
        out.sample("sliding_log_module_replaced", {}, *replaced ? 1 : 0);
    }
}

void write(Exposition& out, const Snapshot& snapshot) {
    writeLimits(out, snapshot);
    writeOverridden(out, snapshot);
    writeActiveRecords(out, snapshot);
    writeCalls(out, snapshot);
    writeHealth(out, snapshot);
    writeZone(out, snapshot);
    writeBuild(out);
}

/// The text in the pool of the request; nullptr without memory.
ngx_buf_t* render(ngx_http_request_t* request) {
    const auto& main =
        *static_cast<const MainSettings*>(ngx_http_get_module_main_conf(request, ngx_http_sliding_log_module));
    const Snapshot snapshot = takeSnapshot(main);
    Exposition measure;
    write(measure, snapshot);
    ngx_buf_t* buffer = ngx_create_temp_buf(request->pool, measure.size());
    if (buffer != nullptr) {
        Exposition text(reinterpret_cast<char*>(buffer->pos));
        write(text, snapshot);
        buffer->last += text.size();
    }
    return buffer;
}

ngx_int_t answerWithMetrics(ngx_http_request_t* request) noexcept {
    return respond(request, [](ngx_http_request_t* each) { return PageResponse{render(each), kContentType, {}}; });
}

}  // namespace

char* setMetrics(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    return setPage(cf, *cmd, conf, answerWithMetrics);
}

}  // namespace sliding_log
