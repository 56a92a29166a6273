// The process's heap, after a spike.
#pragma once

#include <cstddef>

#include "ngx.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace sliding_log {

/// Gives back to the system what a spike has left free. malloc itself does so only from the heap's end, where mostly
/// something small is in the way. It takes the worker about a tenth of a millisecond for each MB, so it is done once,
/// when it has been calm for a while.
class Heap {
  public:
    /// To be called every second or so, with how many things there are that take memory for a moment.
    void tick(std::size_t passing) {
        if (passing >= kSpike) {
            spikeAt_ = ngx_current_msec;
            isSwollen_ = true;
        } else if (isSwollen_ && ngx_current_msec - spikeAt_ >= kCalmMs) {
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
