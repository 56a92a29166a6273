// A call that takes back, or settles, what some requests have logged in the same logs; or a ZREM of requests that are
// not under way any more.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "servers/call.hpp"
#include "store/take_back.hpp"

namespace sliding_log {

class TakeBackCall final : public OwnedCall<TakeBackCall> {
  public:
    using OwnedCall::OwnedCall;

    bool isWanted() const override { return true; }
    std::string_view text() override;
    bool mayBeNative() const override { return Call::mayBeNative() && !isRelease; }

    /// What is owed tells how long ago its request ended.
    void prepare() override;

    /// Writes it whole, of parts of the same logs. `now`: the time in milliseconds, or "" for the server's clock.
    void write(std::span<TakeBack* const> parts, std::string_view now);

    /// What it adds to those on the wire.
    std::size_t weight() const { return isRelease ? 1 : takeBacks.size(); }

    std::vector<TakeBack*> takeBacks;  // in the order of the reply
    bool isRelease = false;            // a ZREM
    std::size_t members = 0;           // of it
    bool isPaced = false;              // it counts among those on the wire to its server

  private:
    void tellEnds();

    bool isStamped_ = false;       // its time is that of nginx
    std::size_t argumentsAt_ = 0;  // where those behind the keys begin in the command
};

/// Writes the parts of such calls.
class TakeBackWriter {
  public:
    /// The part that takes back what these checks, decided at `takenMs`, logged at `loggedMs` under this unique name.
    void write(TakeBack& takeBack, std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
               std::uint64_t takenMs);

    /// The part of a ZREM that removes what the check, of algorithm=inflight, has logged.
    static void writeRelease(TakeBack& takeBack, const Check& check, std::string_view unique);

    /// Frees the memory that it keeps between calls.
    void freeMemory() { text_.freeMemory(); }

  private:
    CallText text_;
};

}  // namespace sliding_log
