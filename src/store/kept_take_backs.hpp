// Take-backs that Redis cannot execute now, or that wait for a connection, or behind others. They are kept until their
// entries have left the window anyway; if there are too many, the oldest are lost.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "list.hpp"
#include "store/take_back.hpp"

namespace sliding_log {

/// One is counted from keep() until finished(), whether it is here or in a list of its server.
class KeptTakeBacks {
  public:
    static constexpr std::size_t kMost = 10'000;
    static constexpr std::size_t kMostBytes = std::size_t{8} << 20;

    bool isEmpty() const { return count_ == 0; }

    void keep(TakeBack& takeBack) { keep(takeBack, waiting_); }

    /// The same in a list of a server.
    void keep(TakeBack& takeBack, List<TakeBack, Kept>& list) {
        count_++;
        bytes_ += bytesOf(takeBack);
        list.pushBack(takeBack);
    }

    /// The oldest one, nullptr if there is none. It stays counted.
    TakeBack* take() { return waiting_.popFront(); }

    /// The oldest one of a list that is not empty, and those of its logs behind it: at most so many, and no more than
    /// Redis executes in the time of a call. They are finished here; valid until the next ones.
    std::span<TakeBack* const> takeTogether(List<TakeBack, Kept>& list, std::size_t most);

    /// Returns some that were taken, to wait again.
    void putBack(List<TakeBack, Kept>& takeBacks) { takeBacks.moveTo(waiting_); }

    /// One that was taken is done.
    void finished(const TakeBack& takeBack) {
        count_--;
        bytes_ -= bytesOf(takeBack);
    }

    /// The oldest is the first.
    List<TakeBack, Kept>& waiting() { return waiting_; }

    bool areTooMany() const { return count_ > kMost || bytes_ > kMostBytes; }

  private:
    static std::size_t bytesOf(const TakeBack& takeBack) {
        return sizeof(TakeBack) + takeBack.keys.size() + takeBack.arguments.size();
    }

    List<TakeBack, Kept> waiting_;
    std::vector<TakeBack*> together_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace sliding_log
