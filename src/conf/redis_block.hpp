// sliding_log_redis [NAME] { server …; … }
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// ngx_command_t::set; conf is the MainSettings.
char* setRedisBlock(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
