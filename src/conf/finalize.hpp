// What is known only when the whole configuration has been read.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// ngx_http_module_t::init_main_conf: settles the store and the cap of each log, the stores' resolver, and the zone.
char* finalizeLimits(ngx_conf_t* cf, void* conf);

/// Once all levels are merged: a reservation of one limit is an entry in the logs of all limits that are asked
/// with it, so these have room for reservations.
void finalizeReservations(const MainSettings& main);

}  // namespace sliding_log
