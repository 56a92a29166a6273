// Cells for tested logs: each is a separate allocation, so that AddressSanitizer detects accesses beyond its end.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "local/cell.hpp"

namespace sliding_log {

class Cells {
  public:
    Cell& make() {
        auto memory = std::make_unique<std::max_align_t[]>(kCellBytes / sizeof(std::max_align_t));
        Cell* cell = new (memory.get()) Cell();
        out_.emplace(cell, std::move(memory));
        return *cell;
    }

    void take(Chain chain) {
        while (chain.count > 0) {
            out_.erase(chain.pop());
        }
    }

    std::size_t out() const { return out_.size(); }

  private:
    std::unordered_map<const Cell*, std::unique_ptr<std::max_align_t[]>> out_;
};

}  // namespace sliding_log
