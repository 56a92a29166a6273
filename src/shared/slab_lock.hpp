// Holds the mutex of a zone during its lifetime.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

class SlabLock {
  public:
    explicit SlabLock(ngx_slab_pool_t& pool) : pool_(pool) { ngx_shmtx_lock(&pool_.mutex); }
    ~SlabLock() { ngx_shmtx_unlock(&pool_.mutex); }
    SlabLock(const SlabLock&) = delete;
    SlabLock& operator=(const SlabLock&) = delete;

  private:
    ngx_slab_pool_t& pool_;
};

}  // namespace sliding_log
