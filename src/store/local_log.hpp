// One key's log in shared memory.
#pragma once

#include <string_view>

#include "limit/log_state.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// Its name follows it in memory.
struct LocalLog {
    ngx_rbtree_node_t node;  // first, so that a node is its log; node.key is the name's hash
    ngx_queue_t used;
    ngx_uint_t transaction;  // the last that touched it
    std::uint64_t clock;     // ms; of the latest decision, which no worker's late view of the time turns back
    LogState state;
    std::size_t nameLength;

    std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), nameLength}; }

    static LocalLog& of(ngx_rbtree_node_t* node) { return *reinterpret_cast<LocalLog*>(node); }
    static LocalLog& of(ngx_queue_t* link) {
        return *reinterpret_cast<LocalLog*>(reinterpret_cast<char*>(link) - offsetof(LocalLog, used));
    }
};

/// Less than, equal to or greater than 0, as (hash, name) stands to the log's. Names decide among equal hashes, so
/// that no choice of keys makes the tree degenerate.
inline int compareWith(const LocalLog& log, ngx_uint_t hash, std::string_view name) {
    if (hash != log.node.key) {
        return hash < log.node.key ? -1 : 1;
    }
    return name.compare(log.name());
}

/// nginx's rbtree insertion for logs.
void insertLocalLog(ngx_rbtree_node_t* root, ngx_rbtree_node_t* node, ngx_rbtree_node_t* sentinel);

}  // namespace sliding_log
