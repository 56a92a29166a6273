// One nginx timer that cannot outlive its owner.
#pragma once

#include "ngx.hpp"
#include "this_process.hpp"

namespace sliding_log {

/// Of two moments of nginx's clock, which wraps around.
inline bool isBefore(ngx_msec_t left, ngx_msec_t right) {
    return static_cast<ngx_msec_int_t>(left - right) < 0;
}

inline bool hasPassed(ngx_msec_t moment) {
    return !isBefore(nowMs(), moment);
}

class Timer {
  public:
    /// A worker that has to quit waits for Work timers, and drops Chore timers.
    enum class Kind { Work, Chore };

    /// `fire(owner)` is called from the event loop when the time is up; the timer is then unset.
    Timer(void* owner, void (*fire)(void*), Kind kind, ngx_log_t* log) : owner_(owner), fire_(fire) {
        event_.data = this;
        event_.log = log;
        event_.cancelable = kind == Kind::Chore;
        event_.handler = [](ngx_event_t* event) {
            Timer& self = *static_cast<Timer*>(event->data);
            self.fire_(self.owner_);
        };
    }
    ~Timer() { cancel(); }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    bool isSet() const { return event_.timer_set; }

    /// ngx_add_timer ignores a change of less than 300 ms on a timer that is set, hence the deletion first.
    void set(ngx_msec_t delayMs) {
        cancel();
        ngx_add_timer(&event_, delayMs);
    }

    void cancel() {
        if (event_.timer_set) {
            ngx_del_timer(&event_);
        }
    }

  private:
    void* owner_;
    void (*fire_)(void*);
    ngx_event_t event_{};
};

}  // namespace sliding_log
