// The tls directives of a sliding_log_redis block.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// Checks the TLS directives of the block and reads all certificates, so that no worker has to. Sets the defaults and
/// `tlsContext`, which lives as long as the configuration.
char* prepareTls(ngx_conf_t* cf, RedisSettings& redis);

}  // namespace sliding_log
