// Objects that are reused, so that the request path allocates almost nothing. Objects created in a spike are freed
// afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace sliding_log {

template <typename T>
class Recycler {
  public:
    /// An object in the state in which it was returned, or a new one constructed from the arguments.
    template <typename... Arguments>
    T& take(Arguments&... arguments) {
        if (free_.empty()) {
            all_.push_back(std::make_unique<T>(arguments...));
            free_.reserve(all_.capacity());  // so that recycle() never allocates
            return *all_.back();
        }
        T* object = free_.back();
        free_.pop_back();
        return *object;
    }

    void recycle(T& object) { free_.push_back(&object); }

    /// Frees the objects that are not in use and returns how many: at most a few thousand, which takes less than a
    /// millisecond. To be called about once a second: creating objects again at this rate costs nothing noticeable.
    std::size_t freeUnused() {
        const auto first = free_.end() - static_cast<std::ptrdiff_t>(std::min(free_.size(), kMostAtOnce));
        std::sort(first, free_.end());
        std::erase_if(
            all_, [&](const std::unique_ptr<T>& each) { return std::binary_search(first, free_.end(), each.get()); });
        const auto freed = static_cast<std::size_t>(free_.end() - first);
        free_.erase(first, free_.end());
        if (all_.empty()) {
            decltype(all_)().swap(all_);
            decltype(free_)().swap(free_);
        }
        return freed;
    }

  private:
    static constexpr std::size_t kMostAtOnce = 2048;

    std::vector<std::unique_ptr<T>> all_;
    std::vector<T*> free_;
};

}  // namespace sliding_log
