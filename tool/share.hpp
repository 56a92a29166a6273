// How much of the memory of a Redis is that of the logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server.hpp"

namespace sliding_log::tool {

struct Share {
    std::int64_t bytes = 0;  // of all keys with the prefix, estimated from those that were seen
    std::int64_t seen = 0;   // keys
    bool isWhole = false;    // all keys were seen
};

/// By the first keys that SCAN returns, which are in no order: at most about a thousand of the `keys` that the database
/// has. nullopt if the user may not ask. Throws CouldNotAsk if there is no reply.
std::optional<Share> shareOf(Server& server, std::string_view prefix, std::int64_t keys);

}  // namespace sliding_log::tool
