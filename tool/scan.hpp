// All keys that match a pattern, without KEYS: SCAN in small steps, with a pause between two of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "json.hpp"
#include "store.hpp"

namespace sliding_log::tool {

struct ScanBudget {
    std::int64_t pauseMs = 10;  // between two commands
    std::int64_t mostMs = 0;    // no command is sent later; 0: no limit
};

/// What was not scanned completely.
struct Missing {
    std::string server;  // empty: hash slots without a server
    std::string text;    // the reason, printable
};

struct Scanned {
    bool isInTime = true;
    std::vector<Missing> missing;

    /// True if no server failed; the time may have been up.
    bool isWhole() const { return missing.empty(); }
};

/// Calls `onKeys` with keys of every master, a few hundred at a time, and the server on which they were found. As with
/// SCAN, a key may be passed twice. If `onKeys` throws CouldNotAsk, the scan of this master ends, and the next one is
/// scanned.
Scanned scan(Store& store, const std::string& pattern, const ScanBudget& budget,
             const std::function<void(const Endpoint& where, const std::vector<std::string>& keys)>& onKeys);

/// Adds the member `missing`.
void jsonOfMissing(Json& out, const Scanned& scanned);

/// Writes them to standard error, one per line.
void tellMissing(const Scanned& scanned);

}  // namespace sliding_log::tool
