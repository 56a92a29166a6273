// Objects that are made once and used again: the request path allocates nothing once it is warm.
#pragma once

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

  private:
    std::vector<std::unique_ptr<T>> all_;
    std::vector<T*> free_;
};

}  // namespace sliding_log
