// All keys of a pattern, without KEYS: SCAN in small batches, with a rest between two of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "store.hpp"

namespace sliding_log::tool {

struct ScanBudget {
    std::int64_t pauseMs = 10;  // between two batches
    std::int64_t mostMs = 0;    // no batch begins later; 0: none
};

/// What was not scanned to its end.
struct Missing {
    std::string server;  // empty: slots that no server has
    std::string text;    // why, printable
};

struct Scanned {
    bool isInTime = true;
    std::vector<Missing> missing;

    /// No server failed us; the time may have been up.
    bool isWhole() const { return missing.empty(); }
};

/// Tells keys of every master to `batch`, a few hundred at a time, with the server they were found on. As with SCAN, a
/// key may come twice. What `batch` throws for want of an answer ends the scan of that master, and the next one's turn
/// has come.
Scanned scan(Store& store, const std::string& pattern, const ScanBudget& budget,
             const std::function<void(const Endpoint& where, const std::vector<std::string>& keys)>& batch);

/// On standard error, a line each.
void tellMissing(const Scanned& scanned);

}  // namespace sliding_log::tool
