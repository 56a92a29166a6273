// The process's heap, after a spike.
#pragma once

#include <cstddef>

#include "ngx.hpp"
#include "this_process.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace sliding_log {

/// Returns memory freed after a spike to the system. malloc itself only returns the end of the heap, where usually
/// something small is still in use. It takes about a tenth of a millisecond for each MB, so it is done once, some time
/// after the spike.
class Heap {
  public:
    /// To be called about once a second, with the number of objects that use memory temporarily.
    void tick(std::size_t passing) {
        if (passing >= kSpike) {
            spikeAt_ = nowMs();
            isSwollen_ = true;
        } else if (isSwollen_ && nowMs() - spikeAt_ >= kCalmMs) {
            isSwollen_ = false;
#ifdef __GLIBC__
            malloc_trim(0);
#endif
        }
    }

  private:
    static constexpr std::size_t kSpike = 1000;
    static constexpr ngx_msec_t kCalmMs = 15'000;

    bool isSwollen_ = false;
    ngx_msec_t spikeAt_ = 0;
};

}  // namespace sliding_log
