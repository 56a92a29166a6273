// Whether one server answers, and in time: when a worker gives its connection up, and why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "this_process.hpp"

namespace sliding_log {

class Silence {
  public:
    /// `timeout`: how long requests wait.
    explicit Silence(ngx_msec_t timeout) : timeout_(timeout) {}

    /// A new connection.
    void forget() {
        timeouts_ = 0;
        notYet_.clear();
    }

    /// A request that was asked at `askedAt` has timed out.
    void timedOut(ngx_msec_t askedAt) {
        if (timeouts_++ == 0) {
            since_ = askedAt;
        }
    }

    /// A reply has arrived after so many nanoseconds. If no request waits for it any more, it may still be in time: a
    /// request may wait less than `timeout`, and none waits for a take-back.
    void replied(bool isWaitedFor, std::uint64_t tookNs) {
        if (isWaitedFor || tookNs < timeout_ * kNsPerMs) {
            forget();
        }
        heard();
    }

    /// A reply to something else than a call, in time or late.
    void heard() { repliedAt_ = nowMs(); }

    /// An error that is to be waited out.
    void refusedForNow(std::string_view answer) { notYet_ = answer; }

    /// Probes tell from now on whether it answers in time.
    void forgetTimeouts() { timeouts_ = 0; }

    /// A request has timed out, and nothing was answered in time since then.
    bool hasTimeouts() const { return timeouts_ > 0; }

    /// After several timeouts in a row.
    bool isTooLong() const { return timeouts_ >= kMostTimeouts && lasts(nowMs() - since_); }

    /// It answers meanwhile, later than requests wait.
    bool isLateness() const { return notYet_.empty() && isBefore(since_, repliedAt_) && !isComplete(); }

    /// No reply for as long as a connection is kept without one.
    bool isComplete() const { return lasts(nowMs() - repliedAt_); }

    std::string_view reason() const {
        return notYet_.empty() ? "no answer inside \"timeout\"" : std::string_view(notYet_);
    }

  private:
    /// A connection is closed after this many timeouts without a reply between them, and a silence of this many
    /// timeouts.
    static constexpr unsigned kMostTimeouts = 3;
    static constexpr unsigned kMostSilentTimeouts = 2;

    static constexpr std::uint64_t kNsPerMs = 1'000'000;

    bool lasts(ngx_msec_t ms) const { return ms >= kMostSilentTimeouts * timeout_; }

    ngx_msec_t timeout_;
    unsigned timeouts_ = 0;     // in a row, without a reply in time between them
    ngx_msec_t since_ = 0;      // when the first of these requests was asked
    ngx_msec_t repliedAt_ = 0;  // when the latest reply arrived
    std::string notYet_;        // the latest error if it is to be waited out, otherwise empty
};

}  // namespace sliding_log
