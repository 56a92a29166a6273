// Calls of the module's own scripts, as nginx makes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "limit/algorithm.hpp"
#include "server.hpp"

namespace sliding_log::tool {

/// What requests of one time ask of one log.
struct Decision {
    std::int64_t nowMs = 0;
    std::int64_t limit = 0;
    std::int64_t windowMs = 0;
    std::int64_t ttlMs = 0;
};

/// EVALSHA for one request per name. The script must be loaded.
Command decide(Algorithm algorithm, const std::string& key, const Decision& decision,
               std::span<const std::string> names);

/// What a script answered to it, of so many requests: how many were admitted. Throws CouldNotAsk for an error, or for
/// what it never says.
std::int64_t admittedIn(ReplyView reply, Algorithm algorithm, const Decision& decision, std::size_t requests);

/// SCRIPT LOAD; throws CouldNotAsk when Redis has not loaded just that script.
void load(Server& server, Algorithm algorithm);

}  // namespace sliding_log::tool
