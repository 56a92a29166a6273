// Permits one message per second and cause: a store in trouble must not fill the disk, and one trouble must not hide
// another.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "ngx.hpp"
#include "this_process.hpp"

namespace sliding_log {

class LogThrottle {
  public:
    /// True at most once a second for each cause. After kMostCauses causes within a second, further ones are not
    /// logged.
    bool allows(std::size_t cause = 0) {
        Told* told = std::ranges::find(told_, cause, &Told::cause);
        if (told == told_.end() || !told->everUsed) {
            told = std::ranges::max_element(told_, {}, &Told::idleMs);
        }
        if (told->idleMs() < kPauseMs) {
            return false;
        }
        *told = {cause, nowMs(), true};
        return true;
    }

  private:
    static constexpr ngx_msec_t kPauseMs = 1000;
    static constexpr std::size_t kMostCauses = 16;

    struct Told {
        std::size_t cause = 0;
        ngx_msec_t at = 0;
        bool everUsed = false;

        ngx_msec_t idleMs() const { return everUsed ? nowMs() - at : static_cast<ngx_msec_t>(-1); }
    };

    std::array<Told, kMostCauses> told_;
};

}  // namespace sliding_log
