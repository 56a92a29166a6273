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

/// Tells keys of every master to `batch`, a few hundred at a time, with the server they were found on. As with SCAN, a
/// key may come twice. False when the time was up.
bool scan(Store& store, const std::string& pattern, const ScanBudget& budget,
          const std::function<void(const Endpoint& where, const std::vector<std::string>& keys)>& batch);

}  // namespace sliding_log::tool
