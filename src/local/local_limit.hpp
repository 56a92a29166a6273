// The local logs of one limit. Each limit has its own order of use and its own share of the zone, so that clients of
// one limit do not evict logs of another.
#pragma once

#include <algorithm>
#include <string_view>

#include "local/cell.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// It has a cell of its own while there are logs of the limit.
struct LocalLimit {
    ngx_str_node_t byName;  // first member, so that a node is its limit
    ngx_queue_t link;       // in LocalLimits
    ngx_queue_t logs;       // of LocalLog, the most recently used first
    size_t cells;           // of its logs
    ngx_msec_t warned;      // when the error log last reported that live logs of it were dropped
    ngx_flag_t everWarned;

    /// NAME, preceded by the end of a prefix that has no colon.
    std::string_view shownName() const {
        const std::string_view name = view(byName.str);
        return name.substr(name.rfind(':') + 1);
    }

    /// The beginning of the names of its logs: `<prefix><NAME>`; the end of it if it is very long.
    static std::string_view nameIn(std::string_view logKey) {
        const std::string_view name = logKey.substr(0, logKey.rfind(":{"));
        constexpr std::size_t kLongest = kCellBytes - sizeof(LocalLimit);
        return name.substr(name.size() - std::min(name.size(), kLongest));
    }

    static LocalLimit& of(ngx_queue_t* link) {
        return *reinterpret_cast<LocalLimit*>(reinterpret_cast<char*>(link) - offsetof(LocalLimit, link));
    }
};

/// All limits that have logs in the zone. Plain data, since two generations of workers share it during a reload.
struct LocalLimits {
    ngx_rbtree_t byName;
    ngx_rbtree_node_t sentinel;
    ngx_queue_t all;  // of LocalLimit
    size_t limits;    // number of limits
    size_t cells;     // of all their logs

    void init();

    /// nullptr if it has no logs.
    LocalLimit* find(std::string_view name);

    /// Adds a limit that has no logs yet.
    LocalLimit& make(Cell& cell, std::string_view name);

    /// Removes a limit that has no logs any more; its cell is then free.
    void erase(LocalLimit& limit);

    void count(LocalLimit& limit, std::size_t more) {
        limit.cells += more;
        cells += more;
    }
    void uncount(LocalLimit& limit, std::size_t fewer) {
        limit.cells -= fewer;
        cells -= fewer;
    }

    /// True if it has at least as many cells as limits have on average.
    bool hasItsShare(const LocalLimit& limit) const { return limit.cells * limits >= cells; }

    /// A different limit each time; there must be one.
    LocalLimit& next();

    template <typename Visit>
    void forEach(Visit visit) {
        for (ngx_queue_t* link = ngx_queue_head(&all); link != &all; link = ngx_queue_next(link)) {
            visit(LocalLimit::of(link));
        }
    }
};

}  // namespace sliding_log
