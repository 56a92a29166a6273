// Keys of the tool that no other program has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sliding_log::tool {

/// From the kernel's random source.
std::uint64_t randomBits();

/// `<prefix>sliding-log-tool:{<16 hex digits>}`: like the key of a log, so that the rights of the module's user cover
/// it.
std::string ownKey(std::string_view prefix);

}  // namespace sliding_log::tool
