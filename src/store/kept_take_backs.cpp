#include "store/kept_take_backs.hpp"

#include <algorithm>

#include "store/work.hpp"

namespace sliding_log {

namespace {

/// A ZREM has at most about this many members.
constexpr std::size_t kMostReleased = 1000;

/// So many of other logs are passed in search of those that go together.
constexpr std::size_t kMostPassed = 64;

}  // namespace

/// By time, so that what follows is found from the one before: together they walk over a compact log twice at most, and
/// each alone would walk over it once, so the walk is no reason to divide them.
std::span<TakeBack* const> KeptTakeBacks::takeTogether(List<TakeBack, Kept>& list, std::size_t most) {
    together_.clear();
    std::size_t passed = 0;
    std::size_t members = 0;
    std::int64_t work = 0;
    list.findFirst([&](TakeBack& each) {
        if (!together_.empty() && !each.hasLogsOf(*together_.front())) {
            return ++passed > kMostPassed;
        }
        members += each.words;
        work += each.work;
        const bool hasRoom =
            each.isRelease ? members <= kMostReleased : together_.size() < most && work <= kMostWorkPerCall;
        if (!hasRoom && !together_.empty()) {
            return true;
        }
        together_.push_back(&each);
        return false;
    });
    for (TakeBack* each : together_) {
        static_cast<ListHook<Kept>&>(*each).unlink();
        finished(*each);
    }
    std::ranges::stable_sort(together_, {}, &TakeBack::loggedMs);
    return together_;
}

}  // namespace sliding_log
