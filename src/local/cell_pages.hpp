// The pages of the zone that cells are made of.
#pragma once

#include <cstddef>

#include "local/cell.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// Takes whole pages of the zone and never returns them. It knows which ones it has taken, so all of them can be used
/// again when nothing that refers to their cells can be relied on. Plain data in the zone, under its lock.
struct CellPages {
    u_char* isTaken;  // of each page of the zone
    size_t pages;     // of the zone
    size_t next;      // of those taken, the ones before this one are in use
    size_t reusable;  // how many are taken and not in use

    /// False if the zone is too small.
    bool init(ngx_slab_pool_t& pool);

    /// The cells of a page; none if all are in use.
    Chain take(ngx_slab_pool_t& pool);

    /// No cell is in use any more.
    void reset();
};

}  // namespace sliding_log
