// Virtual time, and what is to happen in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace simulate {

/// Nanoseconds since the simulation began.
using Time = std::int64_t;

constexpr Time kUs = 1'000;
constexpr Time kMs = 1'000'000;
constexpr Time kSecond = 1'000'000'000;

/// Runs actions in the order of their times; of those at one time, in the order in which they were planned.
class Schedule {
  public:
    using Action = std::function<void()>;

    Time now() const { return now_; }

    void at(Time time, Action action) {
        planned_.push_back({std::max(time, now_), next_++, std::move(action)});
        std::ranges::push_heap(planned_, isLater);
    }

    void after(Time delay, Action action) { at(now_ + delay, std::move(action)); }

    /// Runs the next action; false if there is none until then.
    bool step(Time until) {
        if (planned_.empty() || planned_.front().time > until) {
            now_ = std::max(now_, until);
            return false;
        }
        std::ranges::pop_heap(planned_, isLater);
        Planned next = std::move(planned_.back());
        planned_.pop_back();
        now_ = next.time;
        next.action();
        return true;
    }

    void runUntil(Time until) {
        while (step(until)) {
        }
    }

  private:
    struct Planned {
        Time time;
        std::uint64_t order;
        Action action;
    };

    static bool isLater(const Planned& left, const Planned& right) {
        return std::pair(left.time, left.order) > std::pair(right.time, right.order);
    }

    Time now_ = 0;
    std::uint64_t next_ = 0;
    std::vector<Planned> planned_;
};

}  // namespace simulate
