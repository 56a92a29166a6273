// All keys that match a pattern, without KEYS: SCAN in small steps, with a pause between two of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "failure.hpp"
#include "json.hpp"
#include "store.hpp"

namespace sliding_log::tool {

inline constexpr Option kPauseOption{"--pause", "TIME", "pause between two SCAN commands; 10ms"};
inline constexpr Option kForOption{"--for", "TIME", "scan no longer than this; 1m"};

struct ScanBudget {
    std::int64_t pauseMs = 10;  // between two commands
    std::int64_t mostMs = 0;    // no command is sent later; 0: no limit
};

/// Of --pause and --for.
ScanBudget budgetOf(const Arguments& arguments);

/// The only word, the NAME of a limit; empty if there is none: of all limits. Throws UsageError.
std::string nameOrAll(const Arguments& arguments);

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
    bool isComplete() const { return isInTime && isWhole(); }
};

/// Calls `onKeys` with keys of every master, a few hundred at a time, and the server on which they were found. As with
/// SCAN, a key may be passed twice. If `onKeys` throws CouldNotAsk, the scan of this master ends, and the next one is
/// scanned.
Scanned scan(Store& store, const std::string& pattern, const ScanBudget& budget,
             const std::function<void(const Endpoint& where, const std::vector<std::string>& keys)>& onKeys);

/// Adds the members `complete` and `missing`.
void jsonOf(Json& out, const Scanned& scanned);

/// `of 12 logs`; `of the first 12 logs` if the time was up.
std::string ofSeen(const Scanned& scanned, std::int64_t logs);

/// Tells on standard error what was not seen, one line each, and returns the exit status that follows.
Status tellUnseen(const Scanned& scanned);

}  // namespace sliding_log::tool
