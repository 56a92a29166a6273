// How many take-backs a worker has on the wire to one server. When an upstream dies, all nodes have thousands at once,
// and other requests wait behind each of them in Redis. So they are sent as earlier ones are answered: a few at a time,
// and fewer while replies are slow, whichever worker of the fleet slows them. A server that is far away has as many a
// second as one that is near. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sliding_log {

class Pace {
  public:
    static constexpr std::size_t kMost = 16;  // and as many again for each ms that the fastest reply took
    static constexpr std::uint64_t kMostMs = 64;

    /// A reply is slow if it took half as long again as the fastest one, and this (ns) besides.
    static constexpr std::uint64_t kSlowNs = 10'000'000;

    /// So many more may be sent. None until there is room for some, half of the most at least: if each reply let one
    /// follow, those that wait would never go together (the silly window of RFC 813).
    std::size_t room() const {
        const std::size_t free = most_ > underWay_ ? most_ - underWay_ : 0;
        return free >= std::min((most_ + 1) / 2, kMost / 2) ? free : 0;
    }
    bool isIdle() const { return underWay_ == 0; }

    void sent(std::size_t takeBacks) { underWay_ += takeBacks; }

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
    std::size_t most_ = kMost;
    std::uint64_t fastestNs_ = std::numeric_limits<std::uint64_t>::max() / 2;
};

}  // namespace sliding_log
