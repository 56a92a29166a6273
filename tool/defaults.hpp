// Defaults of options, from /etc/sliding-log.conf or from nginx's configuration.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "arguments.hpp"
#include "nginx_settings.hpp"

namespace sliding_log::tool {

inline constexpr std::string_view kDefaultsFile = "/etc/sliding-log.conf";

/// From the file that SLIDING_LOG_CONF names, which must exist unless the name is empty; without this variable from
/// kDefaultsFile, if it exists. A line is an option of `known` as on the command line, without its dashes. Throws
/// UsageError.
void addFileDefaults(Arguments& arguments, std::span<const Option> known);

/// The block that --store names, or the one that the limit is in, or, if `ofAllHomes`, each that it may be in. Without
/// both, there must not be several blocks. Empty: there is no block. `limit` may be empty. Throws UsageError.
std::vector<const NginxStore*> chosenStores(const NginxSettings& nginx, const Arguments& arguments,
                                            std::string_view limit, bool ofAllHomes);

/// Adds the directives of the block as options. `withLogins`: also users and passwords that are not given otherwise.
void addStoreDefaults(Arguments& arguments, const NginxSettings& nginx, const NginxStore& store, bool withLogins);

}  // namespace sliding_log::tool
