// Logs that are asked in calls of their own for a while.
//
// A call with several logs is refused as a whole because of one of them: NOPERM if its key is not permitted, TRYAGAIN
// if their slot is moving and they are not all on one node. A request for several logs is not decided because of one of
// them: WRONGTYPE, OOM, a value that is not a log. What was refused is asked separately until a second after the latest
// refusal, which saves a failing call for the others. The size is bounded: the oldest entries are forgotten first,
// which costs only a call. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/check.hpp"

namespace sliding_log {

class IsolatedLogs {
  public:
    bool isEmpty(std::uint64_t nowMs) const { return nowMs >= latest_; }

    /// All logs with the name of this one are refused, whatever the value of their keys.
    void addName(std::string_view key, std::uint64_t nowMs) { add(ofName(key), nowMs); }

    /// This log is refused.
    void addLog(std::string_view key, std::uint64_t nowMs) { add(ofLog(key), nowMs); }

    /// Logs of this slot cannot be asked in one call.
    void addSlot(std::uint16_t hashSlot, std::uint64_t nowMs) { add(ofSlot(hashSlot), nowMs); }

    /// True if a request must ask these logs one by one.
    bool areApart(std::span<const Check> checks, std::uint64_t nowMs) const;

    /// True if these logs must not share a call with those of other requests.
    bool areAlone(std::span<const Check> checks, std::uint64_t nowMs) const;

  private:
    using Subject = std::uint64_t;

    struct Loner {
        Subject subject = 0;
        std::uint64_t until = 0;
    };

    static Subject ofName(std::string_view key);
    static Subject ofLog(std::string_view key);
    static Subject ofSlot(std::uint16_t hashSlot);
    void add(Subject subject, std::uint64_t nowMs);
    bool has(Subject subject, std::uint64_t nowMs) const;

    std::array<Loner, 64> isolatedLogs_{};
    std::size_t next_ = 0;      // to be replaced
    std::uint64_t latest_ = 0;  // when the last of them ends
};

}  // namespace sliding_log
