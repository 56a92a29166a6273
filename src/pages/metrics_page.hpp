// sliding_log_metrics: the location that shows the counters to Prometheus.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

char* setMetrics(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
