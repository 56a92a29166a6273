// Lets one message per second through: a store in trouble must not fill the disk.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

class LogThrottle {
  public:
    /// True once a second at most.
    bool allows() {
        if (everUsed_ && ngx_current_msec - last_ < 1000) {
            return false;
        }
        everUsed_ = true;
        last_ = ngx_current_msec;
        return true;
    }

  private:
    bool everUsed_ = false;
    ngx_msec_t last_ = 0;
};

}  // namespace sliding_log
