// How long a worker that quits stays for its take-backs: while Redis executes one after the other, and at most some
// seconds.
#pragma once

#include <cstddef>

#include "redis/timer.hpp"
#include "settings/settings.hpp"
#include "store/store_calls.hpp"

namespace sliding_log {

class QuitDelayOwner {
  public:
    /// The worker quits and stays no longer.
    virtual void quitDelayEnded() = 0;

  protected:
    ~QuitDelayOwner() = default;
};

class QuitDelay {
  public:
    QuitDelay(QuitDelayOwner& owner, StoreOfCalls& store, const RedisSettings& settings, ngx_log_t* nginxLog);

    /// There is one more, or may be in a while. Ended by end().
    void begin();
    void end() { count_--; }

    /// Redis has executed some, so the worker stays for the next.
    void executed();

    /// The worker was told to quit: the time for what there is starts now.
    void workerQuits();

    /// False if there are none, or a worker that quits does not stay any longer.
    bool lasts() const;

    /// Nothing is left to stay for.
    void stop() { timer_.cancel(); }

  private:
    void check();

    QuitDelayOwner& owner_;
    StoreOfCalls& store_;
    const RedisSettings& settings_;
    std::size_t count_ = 0;
    ngx_msec_t latestAt_ = 0;  // when the latest was added
    ngx_msec_t until_ = 0;
    Timer timer_;  // delays a worker that quits
};

}  // namespace sliding_log
