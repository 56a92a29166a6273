// Calls of the module's own scripts, as nginx makes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "limit/algorithm.hpp"
#include "server.hpp"

namespace sliding_log::tool {

struct Decision {
    std::int64_t nowMs = 0;
    std::int64_t limit = 0;
    std::int64_t windowMs = 0;
    std::int64_t ttlMs = 0;
};

/// EVALSHA for one request per name. The script must be loaded.
Command decide(Algorithm algorithm, const std::string& key, const Decision& decision,
               std::span<const std::string> names);

/// What a script answered to it: how many were admitted. Throws CouldNotAsk for an error or any other shape.
std::int64_t admittedIn(ReplyView reply);

/// SCRIPT LOAD; throws CouldNotAsk when Redis has not loaded just that script.
void load(Server& server, Algorithm algorithm);

}  // namespace sliding_log::tool
