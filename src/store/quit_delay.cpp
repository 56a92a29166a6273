#include "store/quit_delay.hpp"

#include "this_process.hpp"

namespace sliding_log {

namespace {

/// A worker that quits stays at most so long, in ms, after it got the latest take-back.
constexpr ngx_msec_t kStaysMs = 10'000;

}  // namespace

QuitDelay::QuitDelay(QuitDelayOwner& owner, StoreOfCalls& store, const RedisSettings& settings, ngx_log_t* nginxLog)
    : owner_(owner),
      store_(store),
      settings_(settings),
      timer_(
          this, [](void* self) { static_cast<QuitDelay*>(self)->check(); }, Timer::Kind::Work, nginxLog) {}

void QuitDelay::begin() {
    store_.noteQuit();
    count_++;
    latestAt_ = nowMs();
    executed();
    if (!timer_.isSet()) {
        timer_.set(settings_.timeout);
    }
}

void QuitDelay::executed() {
    const ngx_msec_t next = nowMs() + settings_.timeout;
    const ngx_msec_t last = latestAt_ + kStaysMs;
    until_ = isBefore(next, last) ? next : last;
}

void QuitDelay::workerQuits() {
    latestAt_ = nowMs();
    executed();
}

bool QuitDelay::lasts() const {
    return count_ > 0 && !(store_.isQuitting() && hasPassed(until_));
}

/// The timer.
void QuitDelay::check() {
    store_.noteQuit();
    if (!lasts()) {
        owner_.quitDelayEnded();
        store_.closeWhenUnused();
    } else {
        timer_.set(hasPassed(until_) ? settings_.timeout : until_ - nowMs());
    }
}

}  // namespace sliding_log
