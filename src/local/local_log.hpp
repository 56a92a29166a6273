// One key's log in shared memory.
#pragma once

#include <string_view>

#include "local/cell.hpp"
#include "local/local_limit.hpp"
#include "local/log_state.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// It is at the beginning of a cell, followed by its name and, in the remaining space, the first entries of the log; a
/// long name is in cells of its own, and a pointer to them follows.
struct LocalLog {
    static constexpr std::size_t kLongestName = 512;  // a prefix, a NAME and a value have 323 bytes at most

    ngx_rbtree_node_t treeNode;  // first member, so that a node is its log; node.key is the hash of the name
    ngx_queue_t used;            // in the list of its limit
    LocalLimit* limit;
    ngx_uint_t transaction;  // the last one that used it
    std::uint64_t clock;     // ms; the latest decision: a worker whose time is behind does not go back
    std::uint32_t cells;     // all of its cells, including this one
    std::uint32_t nameLength;
    LogState state;

    /// The number of additional cells for such a name.
    static std::size_t cellsOfName(std::size_t length);

    /// A new log of this name in the first of the cells, which are as many as it needs; the caller sets the hash of the
    /// name.
    static LocalLog& make(Chain cells, LocalLimit& limit, const Check& check, std::uint64_t now);

    /// The cells of the name.
    Chain nameCells() const;

    /// Starts the contents anew.
    void begin(const Check& check, std::uint64_t now);

    static LocalLog& of(ngx_rbtree_node_t* treeNode) { return *reinterpret_cast<LocalLog*>(treeNode); }
    static LocalLog& of(ngx_queue_t* link) {
        return *reinterpret_cast<LocalLog*>(reinterpret_cast<char*>(link) - offsetof(LocalLog, used));
    }
    static LocalLog& of(LogState& state) {
        return *reinterpret_cast<LocalLog*>(reinterpret_cast<char*>(&state) - offsetof(LocalLog, state));
    }
};

inline constexpr std::size_t kRestOfCell = kCellBytes - sizeof(LocalLog);
static_assert(kRestOfCell >= 48, "most names are shorter");

/// compareWith() of a name in cells of its own.
int compareLongName(const LocalLog& log, std::string_view name);

/// Less than, equal to or greater than 0: (hash, name) compared with that of the log. Names are compared if hashes are
/// equal, so that no choice of keys makes the tree degenerate.
inline int compareWith(const LocalLog& log, ngx_uint_t hash, std::string_view name) {
    if (hash != log.treeNode.key) {
        return hash < log.treeNode.key ? -1 : 1;
    }
    if (name.size() != log.nameLength) {
        return name.size() < log.nameLength ? -1 : 1;
    }
    return name.size() <= kRestOfCell ? std::memcmp(name.data(), &log + 1, name.size()) : compareLongName(log, name);
}

/// nginx's rbtree insertion for logs.
void insertLocalLog(ngx_rbtree_node_t* root, ngx_rbtree_node_t* treeNode, ngx_rbtree_node_t* sentinel);

}  // namespace sliding_log
