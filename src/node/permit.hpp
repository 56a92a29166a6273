// What a request knows of a permit that it has used, and what a batch asks for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "node/check_copies.hpp"
#include "shared/seqlock.hpp"

namespace sliding_log {

/// The name of a lot, without an allocation.
class LotName {
  public:
    static constexpr std::size_t kLongest = 24;

    LotName() = default;
    explicit LotName(std::string_view text) : length_(text.copy(text_.data(), kLongest)) {}

    std::string_view view() const { return {text_.data(), length_}; }

    /// To be written by GuardedText::copyTo().
    template <std::size_t Longest>
    void assign(const GuardedText<Longest>& text) {
        static_assert(Longest <= kLongest);
        length_ = text.copyTo(text_.data());
    }

  private:
    std::array<char, kLongest> text_{};
    std::size_t length_ = 0;
};

/// What a request that used a permit needs to return it.
struct Permit {
    std::uint32_t lot = 0;       // its number in its record
    std::uint32_t position = 0;  // in the lot, from 1
    std::uint64_t loggedMs = 0;  // the time of its entries, by the clock of the log
    bool hasEnded = false;       // it was taken too late: its entries are to be taken back
    bool asksAhead = false;      // it is the time to ask for the next lot
    LotName name;                // of the lot
};

/// The permits that a batch asks for, or a call without requests. It has copies of the checks, since its requests may
/// have ended when the reply arrives. The memory is reused.
struct AskedPermits {
    void clear() {
        sentAt = 0;
        held = 0;
        unique = LotName();
        permits.clear();
        checks.clear();
    }

    /// Called when the batch is written. `unique`: the name of its first request.
    void nameAfter(std::string_view unique) { name = LotName(std::string(unique).append("~p")); }

    /// The number that this check asks for.
    std::uint32_t of(std::size_t check) const { return check < permits.size() ? permits[check] : 0; }

    /// It is a call that only asks for permits.
    bool isAhead() const { return !unique.view().empty(); }

    std::uint64_t sentAt = 0;            // bootTimeMs() before the batch was sent
    std::vector<std::uint32_t> permits;  // for each check; empty: the batch asks for none
    CheckCopies checks;                  // if it asks for some
    LotName name;
    LotName unique;          // of a call that only asks for permits: the name that it sends
    std::uint32_t held = 0;  // of such a call: the permits that the node has still
};

}  // namespace sliding_log
