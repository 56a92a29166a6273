// Locations whose content this module generates: sliding_log_metrics, sliding_log_dashboard.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// The setter of such a directive; `handler` generates the content.
char* setPage(ngx_conf_t* cf, const ngx_command_t& cmd, void* conf, ngx_http_handler_pt handler);

/// To be called when a level is merged. An `if` or `limit_except` inside such a location generates the same content,
/// under the same limits. Refuses a location in which something else would respond instead.
char* inheritPage(ngx_conf_t* cf, const LocationSettings& from, LocationSettings& to);

}  // namespace sliding_log
