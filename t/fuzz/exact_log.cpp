// The log of arrival times, compared with a list, for any operations that its contract permits. Input: window, cap,
// then one byte for each operation and its arguments.

#include "local/exact_log.hpp"

#include <algorithm>
#include <array>
#include <deque>

#include "../unit/cells.hpp"
#include "fuzz.hpp"

namespace sliding_log::fuzz {

namespace {

class Pair {
  public:
    void prune(std::uint64_t now, std::uint64_t window) {
        log_.prune(now, window);
        while (!list_.empty() && list_.front() + window <= now) {
            list_.pop_front();
        }
    }

    void trim(std::size_t cap) {
        log_.trim(cap);
        while (list_.size() > cap) {
            list_.pop_front();
        }
    }

    void add(std::uint64_t now, std::uint64_t time, std::size_t entries) {
        give(log_.cellsToAdd(time, entries) + (time > now ? 1 : 0));
        log_.add(time, entries);
        list_.insert(std::upper_bound(list_.begin(), list_.end(), time), entries, time);
    }

    void remove(std::uint64_t time, std::size_t entries) {
        const auto [begin, end] = std::equal_range(list_.begin(), list_.end(), time);
        require(log_.remove(time, entries) == (begin != end), "entries of that time are removed");
        list_.erase(end - std::min<std::ptrdiff_t>(end - begin, static_cast<std::ptrdiff_t>(entries)), end);
    }

    void bringBack(std::uint64_t now, std::uint64_t farthest) {
        give(1);
        log_.bringBack(now, farthest);
        std::size_t entries = 0;
        for (; !list_.empty() && list_.back() > farthest; entries++) {
            list_.pop_back();
        }
        list_.insert(std::upper_bound(list_.begin(), list_.end(), now), entries, now);
    }

    void compareAfter(std::uint64_t time) const {
        const auto after = list_.end() - std::upper_bound(list_.begin(), list_.end(), time);
        require(log_.countAfter(time) == static_cast<std::size_t>(after),
                "log and list have the same number of future entries");
    }

    void compareEnds() const {
        require(log_.count() == list_.size(), "log and list have the same number of entries");
        require(list_.empty() || (log_.at(0) == list_.front() && log_.at(list_.size() - 1) == list_.back()),
                "log and list have the same first and last entries");
    }

    void compareSmall() const {
        for (std::size_t i = 0; list_.size() < 100 && i < list_.size(); i++) {
            require(log_.at(i) == list_[i], "log and list have the same entries");
        }
    }

    /// Reads the whole log at once, since reading an entry searches it.
    void compareAll() {
        while (!list_.empty()) {
            compareEnds();
            trim(list_.size() - 1);
        }
        compareEnds();
    }

    /// Frees spare cells.
    void tidy() { cells_.take(log_.takeSpare(0)); }

    std::uint64_t timeAt(std::size_t position) const {
        return list_.empty() ? position : list_[position % list_.size()];
    }

  private:
    void give(std::size_t wanted) {
        while (log_.spares() < wanted) {
            log_.give(cells_.make());
        }
    }

    std::array<std::uint8_t, 30> position_;
    ExactLog log_{position_.data(), position_.size()};
    std::deque<std::uint64_t> list_;
    Cells cells_;
};

constexpr std::uint8_t kOperations = 9;

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const std::uint64_t window = 1 + input.number<std::uint16_t>();
    std::uint64_t now = input.number<std::uint64_t>() / 2;  // does not wrap
    Pair pair;
    while (!input.isEmpty()) {
        const auto operation = input.number<std::uint8_t>();
        const std::size_t entries = 1 + operation / kOperations;
        switch (operation % kOperations) {
            case 0:
                now += entries - 1;
                break;
            case 1:
                now += input.number<std::uint16_t>();
                break;
            case 2:
                pair.prune(now, window);
                break;
            case 3:
                pair.trim(entries - 1);
                break;
            case 4:
                pair.add(now, now, entries);
                break;
            case 5:
                pair.add(now, now + input.number<std::uint16_t>(), entries);
                break;
            case 6:
                pair.bringBack(now, now + input.number<std::uint16_t>());
                break;
            case 7:
                pair.remove(input.number<std::uint64_t>(), entries);
                break;
            default:
                pair.remove(pair.timeAt(input.number<std::uint8_t>()), entries);
        }
        pair.tidy();
        pair.compareAfter(now);
        pair.compareEnds();
    }
    pair.compareSmall();
    pair.compareAll();
    return 0;
}
