#include "smaller.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string>
#include <vector>

namespace simulate {

namespace {

/// What the failure says without its numbers.
std::string kindOf(std::string failure) {
    std::erase_if(failure, [](unsigned char each) { return std::isdigit(each) != 0 || each == '.'; });
    return failure;
}

class Search {
  public:
    Search(World world, const Figures& figures, const Surroundings& surroundings, std::chrono::seconds most)
        : world_(std::move(world)),
          kind_(kindOf(figures.failure)),
          surroundings_(surroundings),
          end_(std::chrono::steady_clock::now() + most) {
        surroundings_.isTraced = false;
    }

    const World& best() const { return world_; }

    /// The first requests alone: as few as do it.
    void endEarlier() {
        std::uint64_t tooFew = 0;
        while (tooFew + 1 < world_.requests) {
            World fewer = world_;
            fewer.requests = tooFew + (world_.requests - tooFew) / 2;
            if (!accept(fewer)) {
                tooFew = fewer.requests;
            }
            if (isLate()) {
                return;
            }
        }
    }

    /// Leaves out of 1 to `most` what is not needed: larger parts first, then smaller ones
    /// (Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002).
    void leaveOut(Numbers World::*without, std::uint64_t most) {
        std::vector<std::uint64_t> kept;
        for (std::uint64_t number = 1; number <= most; number++) {
            if (!(world_.*without).contains(number)) {
                kept.push_back(number);
            }
        }
        for (std::size_t size = kept.size(); size > 0; size /= 2) {
            for (std::size_t begin = 0; begin < kept.size() && !isLate();) {
                std::vector<std::uint64_t> rest = kept;
                rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(begin),
                           rest.begin() + static_cast<std::ptrdiff_t>(std::min(begin + size, kept.size())));
                World fewer = world_;
                fewer.*without = allBut(rest, most);
                if (accept(fewer)) {
                    kept = std::move(rest);
                } else {
                    begin += size;
                }
            }
        }
    }

  private:
    bool isLate() const { return std::chrono::steady_clock::now() > end_; }

    static Numbers allBut(const std::vector<std::uint64_t>& kept, std::uint64_t most) {
        std::vector<std::uint64_t> others;
        for (std::uint64_t number = 1; number <= most; number++) {
            if (!std::ranges::binary_search(kept, number)) {
                others.push_back(number);
            }
        }
        return Numbers(std::move(others));
    }

    bool accept(const World& world) {
        const bool fails = kindOf(Simulation(world, surroundings_).figures().failure) == kind_;
        if (fails) {
            world_ = world;
        }
        return fails;
    }

    World world_;
    std::string kind_;
    Surroundings surroundings_;
    std::chrono::steady_clock::time_point end_;
};

}  // namespace

World smaller(const World& world, const Figures& figures, const Surroundings& surroundings, std::chrono::seconds most) {
    Search search(world, figures, surroundings, most);
    search.endEarlier();
    search.leaveOut(&World::withoutFaults, figures.faults);
    search.leaveOut(&World::withoutRequests, search.best().requests);
    return search.best();
}

}  // namespace simulate
