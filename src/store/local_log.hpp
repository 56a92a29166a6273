// One key's log in shared memory.
#pragma once

#include <string_view>

#include "limit/cell.hpp"
#include "limit/log_state.hpp"
#include "ngx.hpp"
#include "store/local_limit.hpp"

namespace sliding_log {

/// It stands at the begin of a cell. Its name follows it and, in what is left, the log's first entries; a long name
/// stands in cells of its own, to which a pointer follows.
struct LocalLog {
    static constexpr std::size_t kLongestName = 512;  // a prefix, a NAME and a value have 323 bytes at most

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

    /// A new log of that name in the first of the cells, of which there are as many as it takes; the name's hash is for
    /// others to set.
    static LocalLog& make(Chain cells, LocalLimit& limit, const Question& question, std::uint64_t now);

    /// Those of the name.
    Chain nameCells() const;

    /// What is kept, begun anew.
    void begin(const Question& question, std::uint64_t now);

    static LocalLog& of(ngx_rbtree_node_t* node) { return *reinterpret_cast<LocalLog*>(node); }
    static LocalLog& of(ngx_queue_t* link) {
        return *reinterpret_cast<LocalLog*>(reinterpret_cast<char*>(link) - offsetof(LocalLog, used));
    }
    static LocalLog& of(LogState& state) {
        return *reinterpret_cast<LocalLog*>(reinterpret_cast<char*>(&state) - offsetof(LocalLog, state));
    }
};

inline constexpr std::size_t kRestOfCell = kCellBytes - sizeof(LocalLog);
static_assert(kRestOfCell >= 48, "most names are shorter");

/// compareWith() of one in cells of its own.
int compareLongName(const LocalLog& log, std::string_view name);

/// Less than, equal to or greater than 0, as (hash, name) stands to the log's. Names decide among equal hashes, so
/// that no choice of keys makes the tree degenerate.
inline int compareWith(const LocalLog& log, ngx_uint_t hash, std::string_view name) {
    if (hash != log.node.key) {
        return hash < log.node.key ? -1 : 1;
    }
    if (name.size() != log.nameLength) {
        return name.size() < log.nameLength ? -1 : 1;
    }
    return name.size() <= kRestOfCell ? std::memcmp(name.data(), &log + 1, name.size()) : compareLongName(log, name);
}

/// nginx's rbtree insertion for logs.
void insertLocalLog(ngx_rbtree_node_t* root, ngx_rbtree_node_t* node, ngx_rbtree_node_t* sentinel);

}  // namespace sliding_log
