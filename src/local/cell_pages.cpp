#include "local/cell_pages.hpp"

#include <algorithm>
#include <new>

#include "this_process.hpp"

namespace sliding_log {

bool CellPages::init(ngx_slab_pool_t& pool) {
    pages = static_cast<size_t>(pool.end - pool.start) / pageBytes();
    isTaken = static_cast<u_char*>(ngx_slab_calloc(&pool, pages));
    return isTaken != nullptr;
}

Chain CellPages::take(ngx_slab_pool_t& pool) {
    u_char* page = nullptr;
    if (reusable > 0) {
        next = static_cast<size_t>(std::find(isTaken + next, isTaken + pages, 1) - isTaken);
        page = pool.start + next * pageBytes();
        next++;
        reusable--;
    } else {
        page = static_cast<u_char*>(ngx_slab_alloc_locked(&pool, pageBytes()));
        if (page == nullptr) {
            return {};
        }
        isTaken[static_cast<size_t>(page - pool.start) / pageBytes()] = 1;
    }
    Chain cells;
    for (size_t at = 0; at < pageBytes(); at += kCellBytes) {
        cells.push(*new (page + at) Cell());
    }
    return cells;
}

void CellPages::reset() {
    next = 0;
    reusable = static_cast<size_t>(std::count(isTaken, isTaken + pages, 1));
}

}  // namespace sliding_log
