// sliding_log_dashboard: the location with a live page about the limits and stores of this nginx.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

char* setDashboard(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
