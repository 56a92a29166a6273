// sliding_log_limit NAME key=… limit=… window=… [PARAMETER=…]…;  sliding_log_limit off;
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// ngx_command_t::set; conf is a LocationSettings.
char* setLimit(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
