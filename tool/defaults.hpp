// Options that need not be given at each call: /etc/sliding-log.conf has them, or nginx's own configuration.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "arguments.hpp"
#include "nginx_settings.hpp"

namespace sliding_log::tool {

inline constexpr std::string_view kDefaultsFile = "/etc/sliding-log.conf";

/// From the file that SLIDING_LOG_CONF names, which must be there unless that is empty; without it from
/// kDefaultsFile, where there is one. A line is an option of `known` as on the command line, without its
/// dashes. Throws UsageError.
void addFileDefaults(Arguments& arguments, std::span<const Option> known);

/// The block that --store names or that the limit is in; of several without both none can be chosen. nullptr: there is
/// no block. `limit` may be empty. Throws UsageError.
const NginxStore* chosenStore(const NginxSettings& nginx, const Arguments& arguments, std::string_view limit);

/// What the block says, as options. `withLogins`: also who we are there, unless that is told otherwise.
void addStoreDefaults(Arguments& arguments, const NginxSettings& nginx, const NginxStore& store, bool withLogins);

}  // namespace sliding_log::tool
