// Life of the configuration: created, merged from level to level, and finished when all of it is read.
#pragma once

#include "conf/settings.hpp"
#include "ngx.hpp"

namespace sliding_log {

void* createMainSettings(ngx_conf_t* cf);
void* createLocationSettings(ngx_conf_t* cf);
char* mergeLocationSettings(ngx_conf_t* cf, void* parent, void* child);

/// ngx_http_module_t::init_main_conf: settles each log's store and cap, which need the whole configuration.
char* finishLimits(ngx_conf_t* cf, void* conf);

/// ngx_command_t::set of sliding_log_status.
char* setStatus(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

/// ngx_command_t::set of sliding_log_on_error allow|deny|local [nodes=N].
char* setOnError(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

/// ngx_command_t::set of sliding_log_zone.
char* setZone(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
