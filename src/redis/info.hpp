// What a server tells of its memory in its answer to INFO. Pure: text in, values out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sliding_log {

struct MemoryInfo {
    std::uint64_t used;  // bytes
    std::uint64_t max;   // bytes, 0: no bound
    std::uint64_t evictedKeys;
    bool evictionUnsafe;
};

/// Whether a server with that maxmemory-policy may evict live logs, whatever else it could evict.
inline bool isEvictionUnsafe(std::string_view policy) {
    return policy.starts_with("allkeys-");
}

/// nullopt for a text that lacks a part of it.
std::optional<MemoryInfo> readMemoryInfo(std::string_view text);

}  // namespace sliding_log
