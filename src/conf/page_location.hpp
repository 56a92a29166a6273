// Locations whose content this module makes: sliding_log_metrics, sliding_log_dashboard.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// What the setter of such a directive does; `handler` makes the content.
char* setPage(ngx_conf_t* cf, const ngx_command_t& cmd, void* conf, ngx_http_handler_pt handler);

/// For when a level is merged: an `if` or `limit_except` inside such a location answers as it does, under its limits,
/// and nothing else may answer in its place.
char* inheritPage(ngx_conf_t* cf, const LocationSettings& from, LocationSettings& to);

}  // namespace sliding_log
