// sliding_log_dashboard: the location that shows people, live, what this nginx's limits and stores do.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

char* setDashboard(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
