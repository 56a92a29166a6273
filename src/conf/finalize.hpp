// Settings that are known only when the whole configuration has been read.
#pragma once

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// ngx_http_module_t::init_main_conf: sets the store and the cap of each log, the resolver of the stores, and the zone.
char* finalizeLimits(ngx_conf_t* cf, void* conf);

/// To be called when all levels are merged. A reservation of one limit is an entry in the logs of all limits that are
/// asked with it, so these logs get room for reservations.
void finalizeReservations(const MainSettings& main);

/// To be called at last: sets what each limit asks for a request, which copies it.
void prepareChecks(const MainSettings& main);

}  // namespace sliding_log
