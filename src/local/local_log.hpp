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

    /// A new log of this name in the first of the cells, which are as many as it needs.
    static LocalLog& make(Chain cells, LocalLimit& limit, const Check& check, std::uint64_t now);

    /// The cells of the name.
    Chain nameCells() const;

    using NameBuffer = char[kLongestName];

    /// The name in one piece; a long name is copied to the buffer.
    std::string_view name(NameBuffer& buffer) const;

    /// Less than, equal to or greater than 0: a name compared with that of the log.
    int compareName(std::string_view name) const;

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

}  // namespace sliding_log
