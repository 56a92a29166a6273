// The memory of a server in its reply to INFO. Pure: text in, values out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sliding_log {

struct MemoryInfo {
    std::uint64_t used;  // bytes
    std::uint64_t max;   // bytes, 0: unlimited
    std::uint64_t evictedKeys;
    bool evictionUnsafe;
};

/// True if a server with this maxmemory-policy may evict logs in use, even if other keys could be evicted.
inline bool isEvictionUnsafe(std::string_view policy) {
    return policy.starts_with("allkeys-");
}

/// nullopt if a part is missing.
std::optional<MemoryInfo> readMemoryInfo(std::string_view text);

}  // namespace sliding_log
