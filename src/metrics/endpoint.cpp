#include "metrics/endpoint.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "conf/refuse.hpp"
#include "conf/settings.hpp"
#include "metrics/exposition.hpp"
#include "store/zone.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::size_t kMediaTypeLength = sizeof("text/plain") - 1;

/// What a server told of its health is of no use after so long.
constexpr ngx_msec_int_t kHealthLastsMs = 60'000;

std::uint64_t get(const std::atomic<std::uint64_t>& number) {
    return number.load(std::memory_order_relaxed);
}

/// What is shown, held still as far as it decides how much there is to write.
struct Shown {
    struct Server {
        NodeCounters* counters;
        Seen seen;
        bool healthKnown;

        std::string_view store() const { return counters->names.first(); }
        std::string_view node() const { return counters->names.second(); }
    };

    std::span<LogSettings* const> logs;
    std::vector<Server> servers;
    const Zone* zone;  // nullptr: there is none
    std::size_t zoneSize;
};

Shown gather(const MainSettings& main) {
    Shown shown{{static_cast<LogSettings* const*>(main.logs.elts), main.logs.nelts}, {}, main.zone, main.zoneSize};
    if (gWorker == nullptr) {
        return {{}, {}, nullptr, 0};
    }
    const auto* core = reinterpret_cast<const ngx_core_conf_t*>(ngx_get_conf(ngx_cycle->conf_ctx, ngx_core_module));
    const auto workers = static_cast<std::size_t>(std::max<ngx_int_t>(core->worker_processes, 1));
    gWorker->board().forEachNode([&](NodeCounters& each) {
        const std::uint64_t toldMs = get(each.health.toldMs);
        const auto age = static_cast<ngx_msec_int_t>(ngx_current_msec - toldMs);
        shown.servers.push_back({&each, each.seenBy(workers), toldMs != 0 && age < kHealthLastsMs});
    });
    std::ranges::sort(shown.servers, {},
                      [](const Shown::Server& each) { return std::pair(each.store(), each.node()); });
    return shown;
}

/// Every series that this limit can have is there from the start, so that rates see its first request.
bool canBe(const LogSettings& log, Source source) {
    return log.redis != nullptr || source == Source::Local || source == Source::Error;
}

void writeLimits(Exposition& out, const Shown& shown) {
    out.family("sliding_log_requests_total", "counter",
               "Requests that asked the limit, by its answer and who gave it.");
    for (const LogSettings* log : shown.logs) {
        LimitCounters& counters = gWorker->counters(*log);
        if (counters.names.first().empty()) {
            continue;  // left out
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
    out.family("sliding_log_near_limit_total", "counter", "Requests admitted at 80 % of the limit or more.");
    for (const LogSettings* log : shown.logs) {
        const LimitCounters& counters = gWorker->counters(*log);
        if (!counters.names.first().empty()) {
            out.sample("sliding_log_near_limit_total", {{"limit", counters.names.first()}}, counters.nearLimit.get());
        }
    }
}

void writeLatency(Exposition& out, const Shown& shown) {
    out.family("sliding_log_store_latency_seconds", "histogram", "From sending a call to the store to its answer.");
    for (const Shown::Server& each : shown.servers) {
        const Histogram& latency = each.counters->latency;
        const auto counts = latency.cumulated();
        const auto bucket = [&](std::string_view most, std::uint64_t count) {
            out.sample("sliding_log_store_latency_seconds_bucket",
                       {{"store", each.store()}, {"node", each.node()}, {"le", most}}, count);
        };
        for (std::size_t i = 0; i < Histogram::kBucketCount; i++) {
            bucket(Histogram::kBuckets[i].text, counts[i]);
        }
        bucket("+Inf", counts.back());
        const Exposition::Labels labels = {{"store", each.store()}, {"node", each.node()}};
        out.sampleNs("sliding_log_store_latency_seconds_sum", labels, latency.sumNs());
        out.sample("sliding_log_store_latency_seconds_count", labels, counts.back());
    }
}

/// A family with one sample for each server that has it.
template <typename Has, typename Value>
void writeServers(Exposition& out, const Shown& shown, std::string_view name, std::string_view type,
                  std::string_view help, Has has, Value value) {
    out.family(name, type, help);
    for (const Shown::Server& each : shown.servers) {
        if (has(each)) {
            out.sample(name, {{"store", each.store()}, {"node", each.node()}}, value(*each.counters));
        }
    }
}

void writeCalls(Exposition& out, const Shown& shown) {
    const auto always = [](const Shown::Server&) { return true; };
    writeServers(out, shown, "sliding_log_store_calls_total", "counter", "Calls sent to the store.", always,
                 [](const NodeCounters& counters) { return counters.calls.get(); });
    writeServers(out, shown, "sliding_log_store_requests_total", "counter", "Requests that those calls carried.",
                 always, [](const NodeCounters& counters) { return counters.requests.get(); });
    out.family("sliding_log_store_errors_total", "counter", "Requests that the store did not decide, by the reason.");
    for (const Shown::Server& each : shown.servers) {
        for (std::size_t error = 1; error < kStoreErrors; error++) {
            out.sample("sliding_log_store_errors_total",
                       {{"store", each.store()}, {"node", each.node()}, {"reason", kStoreErrorNames[error]}},
                       each.counters->errors[error].get());
        }
    }
    writeLatency(out, shown);
}

void writeHealth(Exposition& out, const Shown& shown) {
    out.family("sliding_log_store_up", "gauge", "1 where every worker that needs the server reaches it.");
    for (const Shown::Server& each : shown.servers) {
        if (each.seen != Seen::Not) {
            out.sample("sliding_log_store_up", {{"store", each.store()}, {"node", each.node()}},
                       each.seen == Seen::Up ? 1 : 0);
        }
    }
    const auto isKnown = [](const Shown::Server& each) { return each.healthKnown; };
    writeServers(out, shown, "sliding_log_redis_memory_used_bytes", "gauge", "What Redis has allocated.", isKnown,
                 [](const NodeCounters& counters) { return get(counters.health.memoryUsed); });
    writeServers(out, shown, "sliding_log_redis_memory_max_bytes", "gauge", "Redis's maxmemory; 0: no bound.", isKnown,
                 [](const NodeCounters& counters) { return get(counters.health.memoryMax); });
    writeServers(out, shown, "sliding_log_redis_evicted_keys_total", "counter", "Keys that Redis evicted.", isKnown,
                 [](const NodeCounters& counters) { return get(counters.health.evictedKeys); });
    writeServers(out, shown, "sliding_log_redis_eviction_unsafe", "gauge",
                 "1 where Redis's maxmemory-policy can evict live logs.", isKnown, [](const NodeCounters& counters) {
                     return std::uint64_t{counters.health.evictionUnsafe.load(std::memory_order_relaxed)};
                 });
}

void writeZone(Exposition& out, const Shown& shown) {
    out.family("sliding_log_zone_bytes", "gauge", "Size of the shared memory.");
    if (shown.zone != nullptr) {
        out.sample("sliding_log_zone_bytes", {}, shown.zoneSize);
    }
    out.family("sliding_log_zone_free_bytes", "gauge", "What is free of it, in whole pages.");
    if (shown.zone != nullptr) {
        out.sample("sliding_log_zone_free_bytes", {}, shown.zone->pool->pfree * ngx_pagesize);
    }
}

void write(Exposition& out, const Shown& shown) {
    writeLimits(out, shown);
    writeCalls(out, shown);
    writeHealth(out, shown);
    writeZone(out, shown);
}

/// The text in the request's pool; nullptr when memory is short.
ngx_buf_t* render(ngx_http_request_t* request) {
    const auto& main =
        *static_cast<const MainSettings*>(ngx_http_get_module_main_conf(request, ngx_http_sliding_log_module));
    const Shown shown = gather(main);
    Exposition measure;
    write(measure, shown);
    ngx_buf_t* buffer = ngx_create_temp_buf(request->pool, measure.size());
    if (buffer != nullptr) {
        Exposition text(reinterpret_cast<char*>(buffer->pos));
        write(text, shown);
        buffer->last += text.size();
    }
    return buffer;
}

bool setCacheControl(ngx_http_request_t* request) {
    auto* field = static_cast<ngx_table_elt_t*>(ngx_list_push(&request->headers_out.headers));
    if (field == nullptr) {
        return false;
    }
    *field = {};
    field->hash = 1;
    ngx_str_set(&field->key, "Cache-Control");
    ngx_str_set(&field->value, "no-store");
    return true;
}

ngx_int_t answer(ngx_http_request_t* request) {
    if ((request->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) == 0) {
        return NGX_HTTP_NOT_ALLOWED;
    }
    if (const ngx_int_t rc = ngx_http_discard_request_body(request); rc != NGX_OK) {
        return rc;
    }
    ngx_buf_t* buffer = render(request);
    if (buffer == nullptr || !setCacheControl(request)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    buffer->last_buf = request == request->main ? 1 : 0;
    buffer->last_in_chain = 1;
    request->headers_out.status = NGX_HTTP_OK;
    request->headers_out.content_length_n = buffer->last - buffer->pos;
    request->headers_out.content_type = toNgx(kContentType);
    request->headers_out.content_type_len = kMediaTypeLength;  // nginx adds no charset of its own then
    const ngx_int_t rc = ngx_http_send_header(request);
    if (rc == NGX_ERROR || rc > NGX_OK || request->header_only != 0) {
        return rc;
    }
    ngx_chain_t chain{buffer, nullptr};
    return ngx_http_output_filter(request, &chain);
}

ngx_int_t onContent(ngx_http_request_t* request) noexcept try {
    return answer(request);
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

}  // namespace

char* setMetrics(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.showsMetrics != 0) {
        return refuseDuplicate(cf, view(cmd->name), "directive");
    }
    location.showsMetrics = 1;
    auto* core = static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    core->handler = onContent;
    return kConfOk;
}

}  // namespace sliding_log
