// Objects that are used again: the request path allocates next to nothing. What a spike has made goes when it is over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace sliding_log {

template <typename T>
class Recycler {
  public:
    /// An object as it was given back, or a new one made of the arguments.
    template <typename... Arguments>
    T& take(Arguments&... arguments) {
        if (free_.empty()) {
            all_.push_back(std::make_unique<T>(arguments...));
            free_.reserve(all_.capacity());  // so that giveBack() never allocates
            return *all_.back();
        }
        T* object = free_.back();
        free_.pop_back();
        return *object;
    }

    void giveBack(T& object) { free_.push_back(&object); }

    /// Frees the objects that are not in use, with whatever they have grown to, and returns how many: a few thousand at
    /// most, which take less than a millisecond. To be called every second or so: to make those anew that are needed
    /// again costs nothing beside what they do in a second.
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
