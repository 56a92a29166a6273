// Setters of directives with one or two values.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// ngx_command_t::set of sliding_log_status.
char* setStatus(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

/// ngx_command_t::set of sliding_log_on_error allow|deny|local [nodes=N].
char* setOnError(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

/// ngx_command_t::set of sliding_log_zone.
char* setZone(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
