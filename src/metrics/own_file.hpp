// The file that this code was loaded from, and whether another one stands in its place: after an upgrade the old module
// runs until nginx is restarted.
#pragma once

#include <optional>

namespace sliding_log {

/// Called by the master when it has loaded the module; only the first call counts.
void rememberOwnFile();

/// Whether the file is another one now, or gone; nullopt where that cannot be seen, as in a static build.
std::optional<bool> isOwnFileReplaced();

}  // namespace sliding_log
