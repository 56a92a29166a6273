// Creates the configuration, and merges it from level to level.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

void* createMainSettings(ngx_conf_t* cf);
void* createLocationSettings(ngx_conf_t* cf);
char* mergeLocationSettings(ngx_conf_t* cf, void* parent, void* child);

}  // namespace sliding_log
