// The options that say which Redis, and who we are there.
#pragma once

#include <optional>
#include <span>

#include "arguments.hpp"
#include "redis/tls.hpp"
#include "store.hpp"

namespace sliding_log::tool {

/// For every command.
extern const std::span<const Option> kConnectionOptions;

/// What they come to. `tls` keeps what the settings point to. Throws UsageError.
StoreSettings storeSettings(const Arguments& arguments, std::optional<Tls>& tls);

}  // namespace sliding_log::tool
