// The shared memory of all workers; it survives a reload.
#pragma once

#include "local/cell.hpp"
#include "local/cell_pages.hpp"
#include "local/local_limit.hpp"
#include "local/log_trees.hpp"
#include "metrics/counter_registry.hpp"
#include "ngx.hpp"
#include "this_process.hpp"

namespace sliding_log {

/// The beginning of the zone. Plain data, since two generations of workers share it during a reload.
struct ZoneHeader {
    LogTrees logs;              // local logs
    LocalLimits limits;         // the limits of these logs
    FreeCells freeCells;        // freed by logs
    CellPages cellPages;        // what all these cells are made of
    bool isRelinking;           // a worker changes what links logs, limits and cells, or was killed while it did
    ngx_uint_t transaction;     // of the request that is being decided: its logs are not evicted
    ngx_msec_t evictionWarned;  // when a live log was last reported evicted
    ngx_flag_t everWarned;
    void* denials;            // the table of known denials
    size_t denialsBytes;      // its size
    void* permits;            // the table of permits; nullptr: no limit has prefetch=, or the zone is too small
    size_t permitsBytes;      // its size
    RegistryHeader registry;  // the metrics
    void* usedKeys;           // the table of the most admitted keys; nullptr: the zone is too small
    void* deniedKeys;         // the same for denied keys
    size_t topKeysBytes;      // the size of each of the two
    void* overrides;          // the table of records met; nullptr: no limit has override=on, or there is no room
    size_t overridesBytes;    // its size
    ngx_rbtree_t queues;      // of those who wait for a place, see NodeQueues
    ngx_rbtree_node_t endOfQueues;
};

struct Zone {
    std::uint64_t configuration;  // the number of this one among all that have used the zone, from 1
    bool hasPermits;              // a limit has prefetch=
    bool hasOverrides;            // a limit has override=on
    ngx_slab_pool_t* pool;
    ZoneHeader* header;

    /// The free memory: whole pages, and cells freed by logs.
    size_t freeBytes() const {
        return (pool->pfree + header->cellPages.reusable) * pageBytes() + header->freeCells.count() * kCellBytes;
    }
};

/// Declares the zone of the configuration that is being read; its Zone is filled when nginx has allocated the memory,
/// or taken over from the previous configuration if the size is the same. nullptr: nginx has logged the error.
Zone* declareZone(ngx_conf_t* cf, size_t size);

}  // namespace sliding_log
