// What the directives of a sliding_log_redis block are together: checked, and completed with the defaults.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// To be called when the whole block has been read.
char* completeRedis(ngx_conf_t* cf, RedisSettings& redis);

}  // namespace sliding_log
