// Take-backs that Redis is owed: it is away, or cannot do them now. They are kept until their entries have left the
// window anyway; of more than may be kept the oldest are lost.
#pragma once

#include <cstddef>

#include "store/call.hpp"
#include "store/list.hpp"

namespace sliding_log {

/// A call is counted from keep() until settled() or surplus(), be it here or in a list of its server's.
class Owed {
  public:
    static constexpr std::size_t kMost = 10'000;
    static constexpr std::size_t kMostBytes = std::size_t{8} << 20;

    bool isEmpty() const { return count_ == 0; }

    void keep(Call& call) {
        call.command.shrink_to_fit();
        count_++;
        bytes_ += bytesOf(call);
        waiting_.pushBack(call);
    }

    /// The one that waits for the longest, nullptr when none does. It stays counted.
    Call* take() { return waiting_.popFront(); }

    /// Taken, and to wait again.
    void putBack(List<Call, Queued>& calls) { calls.moveTo(waiting_); }

    /// Taken, and owed no more.
    void settled(const Call& call) {
        count_--;
        bytes_ -= bytesOf(call);
    }

    /// One of those that are too many; nullptr when none are.
    Call* surplus() {
        Call* call = count_ > kMost || bytes_ > kMostBytes ? take() : nullptr;
        if (call != nullptr) {
            settled(*call);
        }
        return call;
    }

  private:
    static std::size_t bytesOf(const Call& call) { return sizeof(Call) + call.command.size(); }

    List<Call, Queued> waiting_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace sliding_log
