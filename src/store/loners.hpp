// Which logs are asked in calls of their own for a while.
//
// A call that names several logs is refused as a whole for one of them: NOPERM where the user may not have its name,
// TRYAGAIN where their slot is on its way and not all are on one side. A request for several logs is not decided for
// one of them: WRONGTYPE, OOM, something that is no log. What was refused so keeps to itself for a second after the
// latest time, and the others are decided with one call fewer to no avail. It is bounded: with more than fit the oldest
// are forgotten, which costs a call and no more. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/verdict.hpp"

namespace sliding_log {

class Loners {
  public:
    bool isEmpty(std::uint64_t nowMs) const { return nowMs >= latest_; }

    /// All logs of this one's name are refused, whatever the value in their keys.
    void addName(std::string_view key, std::uint64_t nowMs) { add(ofName(key), nowMs); }

    /// This log is refused.
    void addLog(std::string_view key, std::uint64_t nowMs) { add(ofLog(key), nowMs); }

    /// No two logs of this slot can be asked in one call.
    void addSlot(std::uint16_t slot, std::uint64_t nowMs) { add(ofSlot(slot), nowMs); }

    /// True when one request asks these logs one by one.
    bool areApart(std::span<const Question> questions, std::uint64_t nowMs) const;

    /// True when no other request's logs are to be in a call with these.
    bool areAlone(std::span<const Question> questions, std::uint64_t nowMs) const;

  private:
    using Subject = std::uint64_t;

    struct Loner {
        Subject subject = 0;
        std::uint64_t until = 0;
    };

    static Subject ofName(std::string_view key);
    static Subject ofLog(std::string_view key);
    static Subject ofSlot(std::uint16_t slot);
    void add(Subject subject, std::uint64_t nowMs);
    bool has(Subject subject, std::uint64_t nowMs) const;

    std::array<Loner, 64> loners_{};
    std::size_t next_ = 0;      // to be forgotten
    std::uint64_t latest_ = 0;  // end of them all
};

}  // namespace sliding_log
