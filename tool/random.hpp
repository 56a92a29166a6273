// Keys of the tool's own, which nobody else has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sliding_log::tool {

/// From the kernel's random source.
std::uint64_t randomBits();

/// `<prefix>sliding-log-tool:{<16 hex digits>}`: like the key of a log, inside the rights of the module's user.
std::string ownKey(std::string_view prefix);

}  // namespace sliding_log::tool
