// Calls of the module's own scripts, as nginx makes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "limit/algorithm.hpp"
#include "server.hpp"

namespace sliding_log::tool {

/// The settings of the checks of a call, with the time of the call.
struct CheckSettings {
    std::int64_t nowMs = 0;
    std::int64_t limit = 0;
    std::int64_t windowMs = 0;
    std::int64_t ttlMs = 0;
};

/// EVALSHA for one request per name. The script must be loaded.
Command scriptCall(Algorithm algorithm, const std::string& key, const CheckSettings& settings,
                   std::span<const std::string> names);

/// The number of admitted requests in the reply of a script to this number of requests. Throws CouldNotAsk for an
/// error, or for a reply that a script never sends.
std::int64_t admittedIn(ReplyView reply, Algorithm algorithm, const CheckSettings& settings, std::size_t requests);

/// SCRIPT LOAD; throws CouldNotAsk if Redis has not loaded exactly this script.
void loadScript(Server& server, Algorithm algorithm);

}  // namespace sliding_log::tool
