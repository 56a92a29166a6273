// How many take-backs a worker has on the wire to one server. When an upstream dies, all nodes have thousands at once,
// and other requests wait behind each of them in Redis. So they are sent as earlier ones are answered: a few at a time,
// and fewer while replies are slow, whichever worker of the fleet slows them. A server that is far away has as many a
// second as one that is near. For each request that is admitted to be under way, one that has ended may go, however
// slow replies are: else those that have ended would count for ever longer. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sliding_log {

class Pace {
  public:
    static constexpr std::size_t kMost = 16;      // for each ms that the fastest reply took,
    static constexpr std::uint64_t kMostMs = 64;  // which are at least one and at most these

    /// A reply is slow if it took half as long again as the fastest one, and this (ns) besides.
    static constexpr std::uint64_t kSlowNs = 10'000'000;

    /// So many more may be sent. None until there is room for some, half of the most at least: if each reply let one
    /// follow, those that wait would never go together (the silly window of RFC 813).
    std::size_t room() const {
        const std::size_t free = most_ > underWay_ ? most_ - underWay_ : 0;
        return free >= std::min((most_ + 1) / 2, kMost / 2) ? free : 0;
    }
    bool isIdle() const { return underWay_ == 0; }

    /// The same for those of requests that have ended.
    std::size_t roomForReleases() const { return std::max(room(), admitted_); }

    /// Requests that are under way now have been admitted into so many logs.
    void admitted(std::size_t logs) { admitted_ = std::min(admitted_ + logs, kMost); }

    void sent(std::size_t takeBacks) {
        underWay_ += takeBacks;
        admitted_ -= std::min(admitted_, takeBacks);
    }

    /// Some that were sent are answered, or lost.
    void ended(std::size_t takeBacks) { underWay_ -= takeBacks; }

    /// After ended(): they were executed, in a call that was answered `tookNs` after it was sent.
    void executed(std::uint64_t tookNs) {
        const bool isSlow = tookNs > fastestNs_ + fastestNs_ / 2 + kSlowNs;
        // the way to the server may become longer
        fastestNs_ = tookNs < fastestNs_ ? tookNs : fastestNs_ + fastestNs_ / kForgets;
        most_ = isSlow ? std::max<std::size_t>(most_ / 2, 1) : std::min(most_ + 1, mostAtOnce());
    }

  private:
    static constexpr std::uint64_t kForgets = 256;

    std::size_t mostAtOnce() const { return kMost * std::clamp<std::uint64_t>(fastestNs_ / 1'000'000, 1, kMostMs); }

    std::size_t underWay_ = 0;
    std::size_t admitted_ = 0;
    std::size_t most_ = kMost;
    std::uint64_t fastestNs_ = std::numeric_limits<std::uint64_t>::max() / 2;
};

}  // namespace sliding_log
