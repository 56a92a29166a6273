// Take-backs that Redis cannot execute now, or that wait for a connection, or behind others. They are kept until their
// entries have left the window anyway; if there are too many, the oldest are lost.
#pragma once

#include <cstddef>

#include "store/call.hpp"
#include "store/list.hpp"

namespace sliding_log {

/// A call is counted from keep() until finished(), whether it is here or in a list of its server.
class KeptTakeBacks {
  public:
    static constexpr std::size_t kMost = 10'000;
    static constexpr std::size_t kMostBytes = std::size_t{8} << 20;

    bool isEmpty() const { return count_ == 0; }

    void keep(Call& call) { keep(call, waiting_); }

    /// The same in a list of a server.
    void keep(Call& call, List<Call, Queued>& list) {
        call.command.shrink_to_fit();
        count_++;
        bytes_ += bytesOf(call);
        list.pushBack(call);
    }

    /// The oldest one, nullptr if there is none. It stays counted.
    Call* take() { return waiting_.popFront(); }

    /// Returns one that was taken, to wait again.
    void putBack(List<Call, Queued>& calls) { calls.moveTo(waiting_); }

    /// One that was taken is done.
    void finished(const Call& call) {
        count_--;
        bytes_ -= bytesOf(call);
    }

    /// The oldest is the first.
    List<Call, Queued>& waiting() { return waiting_; }

    bool areTooMany() const { return count_ > kMost || bytes_ > kMostBytes; }

  private:
    static std::size_t bytesOf(const Call& call) { return sizeof(Call) + call.command.size(); }

    List<Call, Queued> waiting_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace sliding_log
