// What the files of CompactLog share.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "compact_log.hpp"
#include "compact_numbers.hpp"

namespace sliding_log::native {

inline constexpr double kEndless = std::numeric_limits<double>::infinity();

/// Appends the numbers that stand for so many more entries with the time of the entry before them.
void appendSame(std::string& out, const CompactLog::Log& log, double entries);

/// The index of what stands for nothing in front of a number that leaves: it belongs to that number.
std::size_t beforeNothing(const CompactLog::Log& log, std::string_view bytes, std::size_t at);

void removeRing(CompactLog::Log& log);

struct CompactLog::Walk {
    bool forward;
    double most;
    double time;
    double entry;
    bool hasRuns;
    double passed = 0;
    double bytes = 0;
    double within = 0;    // if the walk ends within a run: the number of its entries that were passed
    double run = 0;       // of a walk back that ends within a run: the entries of the run
    double runBytes = 0;  // and its bytes

    /// Passes numbers in the direction of the walk. False if the walk has ended.
    bool pass(std::string_view numbers);

    /// Where a walk forward has ended.
    Place place() const { return {.entry = entry, .passed = passed, .bytes = bytes, .within = within}; }

  private:
    bool passBlock(std::string_view numbers, std::size_t& at);
};

/// Places that a walk may begin at: the latest that is known of those not after a time, and the first of the others,
/// with the bytes behind it.
struct CompactLog::Near {
    Place below;
    Place above;
};

/// Where the entries end that are not after a time.
struct CompactLog::Split {
    bool has;          // false: all entries are after that time, and all numbers are in `latest`
    double entry = 0;  // its time
    bool hasBehind = false;
    double behind = 0;     // ms to its successor
    std::size_t at = 0;    // where its number ends in `latest`
    std::size_t rest = 0;  // where its successor's number ends there
    double after = 0;      // the number of entries after it
};

}  // namespace sliding_log::native
