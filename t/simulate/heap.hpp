// What a worker has allocated and not freed: nginx and the module, not the libraries that they use.
#pragma once

#include <cstddef>
#include <unordered_map>

namespace simulate {

class Heap {
  public:
    /// From now on.
    void begin() { isKept_ = true; }

    void took(const void* piece, std::size_t bytes) {
        if (isKept_ && piece != nullptr && bytes < kLarge) {
            freed(piece);  // a library has
            bytes_ += pieces_[piece] = bytes;
        }
    }

    /// Does nothing if it was taken before begin(), or by a library.
    void freed(const void* piece) {
        if (const auto found = pieces_.find(piece); found != pieces_.end()) {
            bytes_ -= found->second;
            pieces_.erase(found);
        }
    }

    std::size_t bytes() const { return bytes_; }

  private:
    /// A worker has one buffer for all of HTTP/2, and a table of the slots of a Cluster, for as long as it lives.
    static constexpr std::size_t kLarge = 100'000;

    bool isKept_ = false;
    std::unordered_map<const void*, std::size_t> pieces_;
    std::size_t bytes_ = 0;
};

}  // namespace simulate
