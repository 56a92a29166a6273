// What tables of fixed size in shared memory have in common: the hash of a key leads to a set, and the key is in one of
// the ways of that set, if it is there. There is no lock: each way has a Sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include "shared/seqlock.hpp"

namespace sliding_log {

/// Placing: a Set has the ways of a hash, and is valid when it is zeroed.
template <typename Set>
class Sets {
  public:
    Sets() = default;

    /// As many as there is room for. nullptr: none.
    Sets(void* memory, std::size_t bytes)
        : sets_(static_cast<Set*>(memory), memory == nullptr ? 0 : bytes / sizeof(Set)) {}

    bool areNone() const { return sets_.empty(); }
    std::span<Set> all() const { return sets_; }

    /// There must be sets.
    Set& of(std::size_t hash) const { return sets_[hash % sets_.size()]; }

  private:
    std::span<Set> sets_;
};

/// A way that is to be replaced, and its rank.
template <typename Way>
struct Victim {
    Way way;
    std::uint64_t rank;
};

/// The way with the least rank, the first one of several; nullopt: there is none that has a rank. rankOf(way) returns a
/// number or a std::optional of one.
template <std::ranges::input_range Ways, typename RankOf>
auto victimOf(Ways&& ways, RankOf rankOf) {
    std::optional<Victim<std::ranges::iterator_t<Ways>>> victim;
    for (auto way = std::ranges::begin(ways); way != std::ranges::end(ways); ++way) {
        const std::optional<std::uint64_t> rank = rankOf(*way);
        if (rank && (!victim || *rank < victim->rank)) {
            victim.emplace(way, *rank);
        }
    }
    return victim;
}

/// Writes a way, until its end, also one that a process was writing when it was killed: so all that is guarded is to be
/// written. False: another process is writing it.
class Writing {
  public:
    Writing(Sequence& sequence, Sequence::Writer self)
        : sequence_(sequence.beginWriting(self) || sequence.takeOver(self) ? &sequence : nullptr) {}
    ~Writing() {
        if (sequence_ != nullptr) {
            sequence_->endWriting();
        }
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

    explicit operator bool() const { return sequence_ != nullptr; }

  private:
    Sequence* sequence_;
};

}  // namespace sliding_log
