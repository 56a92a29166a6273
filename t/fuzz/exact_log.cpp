// The ring of arrival times against a plain list, over any operations that its contract allows. Input: window, cap,
// then one byte per operation and what it takes.

#include "limit/exact_log.hpp"

#include <algorithm>
#include <deque>
#include <memory>

#include "fuzz.hpp"

namespace sliding_log::fuzz {

namespace {

class Pair {
  public:
    void prune(std::uint64_t now, std::uint64_t window) {
        ring_.prune(now, window);
        while (!list_.empty() && now - list_.front() >= window) {
            list_.pop_front();
        }
    }

    void trim(std::size_t cap) {
        ring_.trim(cap);
        while (list_.size() > cap) {
            list_.pop_front();
        }
    }

    void add(std::uint64_t now) {
        if (ring_.isFull()) {
            const std::size_t capacity = ring_.capacity() == 0 ? 16 : ring_.capacity() * 2;
            auto larger = std::make_unique<std::uint8_t[]>(capacity);
            ring_.moveTo(larger.get(), capacity);
            memory_ = std::move(larger);
        }
        ring_.add(now);
        list_.push_back(now);
    }

    void remove(std::uint64_t time) {
        ring_.remove(time);
        const auto found = std::find(list_.begin(), list_.end(), time);
        if (found != list_.end()) {
            list_.erase(found);
        }
    }

    void compareEnds() const {
        require(ring_.count() == list_.size(), "both hold as many");
        require(list_.empty() || (ring_.at(0) == list_.front() && ring_.at(list_.size() - 1) == list_.back()),
                "both begin and end alike");
    }

    void compareSmall() const {
        for (std::size_t i = 0; list_.size() < 100 && i < list_.size(); i++) {
            require(ring_.at(i) == list_[i], "both hold the same");
        }
    }

    /// Takes the log apart, since reading an entry walks to it.
    void compareAll() {
        while (!list_.empty()) {
            compareEnds();
            trim(list_.size() - 1);
        }
        compareEnds();
    }

    std::uint64_t timeAt(std::size_t place) const { return list_.empty() ? place : list_[place % list_.size()]; }

  private:
    ExactLog ring_;
    std::deque<std::uint64_t> list_;
    std::unique_ptr<std::uint8_t[]> memory_;
};

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const std::uint64_t window = 1 + input.number<std::uint16_t>();
    std::uint64_t now = input.number<std::uint64_t>() / 2;  // never wraps here
    Pair pair;
    while (!input.isEmpty()) {
        const auto operation = input.number<std::uint8_t>();
        switch (operation % 6) {
            case 0:
                now += operation / 6;
                break;
            case 1:
                now += input.number<std::uint16_t>();
                break;
            case 2:
                pair.prune(now, window);
                break;
            case 3:
                pair.trim(operation / 6);
                break;
            case 4:
                for (int i = 0; i <= operation / 6; i++) {
                    pair.add(now);
                }
                break;
            default:
                pair.remove(operation > 128 ? input.number<std::uint64_t>() : pair.timeAt(operation));
        }
        pair.compareEnds();
    }
    pair.compareSmall();
    pair.compareAll();
    return 0;
}
