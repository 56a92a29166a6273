// Whether workers may read what the master has read as root.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// Warns of a password_file that the user of the workers cannot read: they read it again while nginx runs. To be called
/// when the whole configuration is known. False if the process could not become root again.
bool warnOfUnreadablePasswords(ngx_cycle_t* cycle, const MainSettings& main);

}  // namespace sliding_log
