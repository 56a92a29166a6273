#include "local/zone.hpp"

#include <algorithm>

namespace sliding_log {

namespace {

constexpr size_t kShareOfDenials = 4;  // of the zone
constexpr size_t kShareOfPermits = 8;
constexpr size_t kShareOfMetrics = 32;
constexpr size_t kLeastForMetrics = 4096;                 // a page
constexpr size_t kMostForMetrics = size_t{256} * 1024;    // some 300 servers, or 1,000 limits
constexpr size_t kBytesForOverrides = size_t{16} * 1024;  // some 60 keys
constexpr size_t kShareOfTopKeys = 80;                    // each of the two tables
constexpr size_t kMostForTopKeys = size_t{128} * 1024;    // some 500 keys
constexpr size_t kLeastForTopKeys = 4096;                 // a smaller zone has no tables

bool makeTopKeys(Zone& zone, size_t size) {
    zone.header->topKeysBytes = std::min(size / kShareOfTopKeys, kMostForTopKeys);
    if (zone.header->topKeysBytes < kLeastForTopKeys) {
        zone.header->topKeysBytes = 0;
        return true;
    }
    zone.header->usedKeys = ngx_slab_calloc(zone.pool, zone.header->topKeysBytes);
    zone.header->deniedKeys = ngx_slab_calloc(zone.pool, zone.header->topKeysBytes);
    return zone.header->usedKeys != nullptr && zone.header->deniedKeys != nullptr;
}

/// When a limit first has prefetch=: the memory may be in use for local logs by then.
void makePermits(Zone& zone, size_t size, ngx_log_t* log) {
    if (!zone.hasPermits || zone.header->permits != nullptr) {
        return;
    }
    zone.header->permitsBytes = size / kShareOfPermits;
    zone.header->permits = ngx_slab_calloc(zone.pool, zone.header->permitsBytes);
    if (zone.header->permits == nullptr) {
        zone.header->permitsBytes = 0;
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "\"sliding_log_zone\" has no room for permits: \"prefetch\" has no effect until nginx is "
                      "restarted");
    }
}

/// The same when a limit first has override=on. Without it the dashboard shows none.
void makeOverrides(Zone& zone, size_t size) {
    if (zone.hasOverrides && zone.header->overrides == nullptr && size / kShareOfTopKeys >= kLeastForTopKeys) {
        zone.header->overrides = ngx_slab_calloc(zone.pool, kBytesForOverrides);
        zone.header->overridesBytes = zone.header->overrides == nullptr ? 0 : kBytesForOverrides;
    }
}

ngx_int_t initializeZone(ngx_shm_zone_t* memory, void* before) {
    auto& zone = *static_cast<Zone*>(memory->data);
    if (before != nullptr) {
        const auto& old = *static_cast<const Zone*>(before);
        zone.pool = old.pool;
        zone.header = old.header;
        zone.configuration = ++zone.header->registry.configurations;
        makePermits(zone, memory->shm.size, memory->shm.log);
        makeOverrides(zone, memory->shm.size);
        return NGX_OK;
    }
    zone.pool = reinterpret_cast<ngx_slab_pool_t*>(memory->shm.addr);
    if (memory->shm.exists) {
        zone.header = static_cast<ZoneHeader*>(zone.pool->data);
        zone.configuration = ++zone.header->registry.configurations;
        return NGX_OK;
    }
    void* header = ngx_slab_calloc(zone.pool, sizeof(ZoneHeader));
    if (header == nullptr) {
        return NGX_ERROR;
    }
    zone.header = new (header) ZoneHeader();
    zone.pool->data = zone.header;
    zone.configuration = ++zone.header->registry.configurations;
    ngx_rbtree_init(&zone.header->queues, &zone.header->endOfQueues, ngx_str_rbtree_insert_value);
    zone.header->limits.init();
    if (!zone.header->logs.init(*zone.pool, memory->shm.size) || !zone.header->cellPages.init(*zone.pool)) {
        return NGX_ERROR;
    }
    zone.header->denialsBytes = memory->shm.size / kShareOfDenials;
    zone.header->denials = ngx_slab_calloc(zone.pool, zone.header->denialsBytes);
    if (zone.header->denials == nullptr) {
        return NGX_ERROR;
    }
    RegistryHeader& registry = zone.header->registry;
    registry.left = std::clamp(memory->shm.size / kShareOfMetrics, kLeastForMetrics, kMostForMetrics);
    registry.memory = static_cast<char*>(ngx_slab_calloc(zone.pool, registry.left));
    if (registry.memory == nullptr || !makeTopKeys(zone, memory->shm.size)) {
        return NGX_ERROR;
    }
    makePermits(zone, memory->shm.size, memory->shm.log);
    makeOverrides(zone, memory->shm.size);
    zone.pool->log_nomem = 0;  // a full zone evicts logs and logs that itself
    return NGX_OK;
}

}  // namespace

Zone* declareZone(ngx_conf_t* cf, size_t size) {
    ngx_str_t name = ngx_string("sliding_log");
    auto* zone = poolNew<Zone>(cf->pool);
    ngx_shm_zone_t* memory =
        zone == nullptr ? nullptr : ngx_shared_memory_add(cf, &name, size, &ngx_http_sliding_log_module);
    if (memory == nullptr) {
        return nullptr;
    }
    memory->init = initializeZone;
    memory->data = zone;
    return zone;
}

}  // namespace sliding_log
