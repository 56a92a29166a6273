// The shared memory of all workers: what survives a reload, and what they know together.
#pragma once

#include "limit/cell.hpp"
#include "metrics/board.hpp"
#include "ngx.hpp"
#include "store/local_limit.hpp"

namespace sliding_log {

/// What stands at the begin of the zone. Plain data: two generations of workers share it during a reload.
struct ZoneHeader {
    ngx_rbtree_t logs;  // local logs, by hash and then by name
    ngx_rbtree_node_t sentinel;
    LocalLimits limits;         // whose logs they are
    FreeCells freeCells;        // that logs have left
    ngx_uint_t transaction;     // of the request that is being decided: its logs are not evicted meanwhile
    ngx_msec_t evictionWarned;  // when a live log was last reported evicted
    ngx_flag_t everWarned;
    void* denials;        // the table of known denials
    size_t denialsBytes;  // its size
    BoardHeader board;    // the metrics
    void* usedKeys;       // the table of the keys that are admitted most; nullptr: the zone is too small for it
    void* deniedKeys;     // the same, denied
    size_t topKeysBytes;  // the size of each
};

struct Zone {
    ngx_slab_pool_t* pool;
    ZoneHeader* header;

    /// What is free: whole pages, and what logs have left.
    size_t freeBytes() const { return pool->pfree * ngx_pagesize + header->freeCells.count() * kCellBytes; }
};

/// Declares the zone of the configuration that is being read; its Zone is filled when nginx has made the memory,
/// taken over as it is from the configuration before where the size is the same. nullptr: nginx has said why.
Zone* declareZone(ngx_conf_t* cf, size_t size);

}  // namespace sliding_log
