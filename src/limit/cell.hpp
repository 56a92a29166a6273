// The memory that local logs are made of: cells of one size. So what any log leaves serves any other, and there is
// nothing to search or to move when one grows, however long the zone has been in use.
#pragma once

#include <cstddef>

namespace sliding_log {

/// What stands at the begin of one that is linked with others.
struct Cell {
    Cell* next;
    Cell* previous;
};

inline constexpr std::size_t kCellBytes = 256;

/// Cells that nobody uses, linked by `next`.
struct Chain {
    Cell* first = nullptr;
    std::size_t count = 0;

    void push(Cell& cell) {
        cell.next = first;
        first = &cell;
        count++;
    }

    /// There is one.
    Cell* pop() {
        Cell* cell = first;
        first = cell->next;
        count--;
        return cell;
    }
};

/// All the free ones. Plain data, so that it can stand in shared memory. Nothing here takes longer for a long chain:
/// chains stay as they came, the first of each pointing to the next one by `previous`.
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

    /// nullptr: there is none.
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
