// The memory of local logs: cells of one size. A cell that one log frees can be used by any other, so nothing has to be
// searched or moved when a log grows, however long the zone is in use.
#pragma once

#include <cstddef>

namespace sliding_log {

/// The head of a cell that is linked with others.
struct Cell {
    Cell* next;
    Cell* previous;
};

inline constexpr std::size_t kCellBytes = 256;

/// Unused cells, linked by `next`.
struct Chain {
    Cell* first = nullptr;
    std::size_t count = 0;

    void push(Cell& cell) {
        cell.next = first;
        first = &cell;
        count++;
    }

    /// There must be a cell.
    Cell* pop() {
        Cell* cell = first;
        first = cell->next;
        count--;
        return cell;
    }
};

/// All free cells. Plain data, so that it can be in shared memory. No operation takes longer for a long chain: chains
/// stay linked as they were put, and the first cell of each refers to the next chain by `previous`.
class FreeCells {
  public:
    std::size_t count() const { return count_; }

    void put(const Chain& chain) {
        if (chain.count == 0) {
            return;
        }
        chain.first->previous = first_;
        first_ = chain.first;
        count_ += chain.count;
    }

    void put(Cell& cell) {
        cell.next = nullptr;
        put(Chain{&cell, 1});
    }

    /// nullptr if there is no free cell.
    Cell* take() {
        Cell* cell = first_;
        if (cell == nullptr) {
            return nullptr;
        }
        first_ = cell->previous;
        if (cell->next != nullptr) {
            cell->next->previous = first_;
            first_ = cell->next;
        }
        count_--;
        return cell;
    }

  private:
    Cell* first_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace sliding_log
