// A function that is called at the end of this event-loop turn, once, however often it is requested.
#pragma once

#include "ngx.hpp"
#include "this_process.hpp"

namespace sliding_log {

class Posted {
  public:
    Posted(void* owner, void (*run)(void*), ngx_log_t* log) : owner_(owner), run_(run) {
        event_.data = this;
        event_.log = log;
        event_.handler = [](ngx_event_t* event) {
            Posted& self = *static_cast<Posted*>(event->data);
            self.run_(self.owner_);
        };
    }
    ~Posted() {
        if (event_.posted) {
            ngx_delete_posted_event(&event_);
        }
    }
    Posted(const Posted&) = delete;
    Posted& operator=(const Posted&) = delete;

    void post() { postEvent(&event_); }

  private:
    void* owner_;
    void (*run_)(void*);
    ngx_event_t event_{};
};

}  // namespace sliding_log
