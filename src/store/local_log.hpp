// One key's log in shared memory.
#pragma once

#include <span>
#include <string_view>

#include "limit/cell.hpp"
#include "limit/log_state.hpp"
#include "ngx.hpp"
#include "store/local_limit.hpp"

namespace sliding_log {

/// It stands at the begin of a cell. Its name follows it and, in what is left, the log's first entries; a long name
/// stands in cells of its own, to which a pointer follows.
struct LocalLog {
    ngx_rbtree_node_t node;  // first, so that a node is its log; node.key is the name's hash
    ngx_queue_t used;        // in its limit's
    LocalLimit* limit;
    ngx_uint_t transaction;  // the last that touched it
    std::uint64_t clock;     // ms; of the latest decision, which no worker's late view of the time turns back
    std::uint32_t cells;     // that it takes, with its own
    std::uint32_t nameLength;
    LogState state;

    /// How many cells such a name takes beyond the log's own.
    static std::size_t cellsOfName(std::size_t length);

    /// Writes the name, into those cells or beside the log.
    void setName(std::string_view name, const Chain& cells);

    /// Those cells.
    Chain nameCells() const;

    /// Where the first entries stand.
    std::span<std::uint8_t> place();

    static LocalLog& of(ngx_rbtree_node_t* node) { return *reinterpret_cast<LocalLog*>(node); }
    static LocalLog& of(ngx_queue_t* link) {
        return *reinterpret_cast<LocalLog*>(reinterpret_cast<char*>(link) - offsetof(LocalLog, used));
    }
};

/// Less than, equal to or greater than 0, as (hash, name) stands to the log's. Names decide among equal hashes, so
/// that no choice of keys makes the tree degenerate.
int compareWith(const LocalLog& log, ngx_uint_t hash, std::string_view name);

/// nginx's rbtree insertion for logs.
void insertLocalLog(ngx_rbtree_node_t* root, ngx_rbtree_node_t* node, ngx_rbtree_node_t* sentinel);

}  // namespace sliding_log
