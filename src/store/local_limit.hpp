// One limit's part of the local logs. Each has its own order of use and its own share of the zone, so that no client
// of one limit makes another limit forget.
#pragma once

#include <algorithm>
#include <string_view>

#include "limit/cell.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// It stands in a cell of its own, as long as there are logs of that limit.
struct LocalLimit {
    ngx_str_node_t byName;  // first, so that a node is its limit
    ngx_queue_t link;       // in LocalLimits
    ngx_queue_t logs;       // of LocalLog, the one asked last first
    size_t cells;           // of its logs
    ngx_msec_t warned;      // when the error log last told that live logs of it were dropped
    ngx_flag_t everWarned;

    /// NAME, with the end of a prefix that has no colon.
    std::string_view shownName() const {
        const std::string_view name = view(byName.str);
        return name.substr(name.rfind(':') + 1);
    }

    /// What its logs' names begin with: `<prefix><NAME>`. Of a very long one the end.
    static std::string_view nameIn(std::string_view logKey) {
        const std::string_view name = logKey.substr(0, logKey.rfind(":{"));
        constexpr std::size_t kLongest = kCellBytes - sizeof(LocalLimit);
        return name.substr(name.size() - std::min(name.size(), kLongest));
    }

    static LocalLimit& of(ngx_queue_t* link) {
        return *reinterpret_cast<LocalLimit*>(reinterpret_cast<char*>(link) - offsetof(LocalLimit, link));
    }
};

/// All limits that have logs in the zone. Plain data: two generations of workers share it during a reload.
struct LocalLimits {
    ngx_rbtree_t byName;
    ngx_rbtree_node_t sentinel;
    ngx_queue_t all;  // of LocalLimit
    size_t limits;    // how many
    size_t cells;     // of all their logs

    void init();

    /// nullptr: it has no logs.
    LocalLimit* find(std::string_view name);

    /// One that has no logs yet.
    LocalLimit& make(Cell& cell, std::string_view name);

    /// It has no logs any more; its cell is free.
    void erase(LocalLimit& limit);

    void count(LocalLimit& limit, std::size_t more) {
        limit.cells += more;
        cells += more;
    }
    void uncount(LocalLimit& limit, std::size_t fewer) {
        limit.cells -= fewer;
        cells -= fewer;
    }

    /// True where it has no less than all limits have on average.
    bool hasItsShare(const LocalLimit& limit) const { return limit.cells * limits >= cells; }

    /// Another one each time; there are some.
    LocalLimit& next();

    template <typename Visit>
    void forEach(Visit visit) {
        for (ngx_queue_t* link = ngx_queue_head(&all); link != &all; link = ngx_queue_next(link)) {
            visit(LocalLimit::of(link));
        }
    }
};

}  // namespace sliding_log
