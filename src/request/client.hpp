// $sliding_log_client: the client as a limit should know it.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// ngx_http_variable_t::get_handler. The client's address as text, as $remote_addr has it (realip's, where that is
/// used); an IPv6 one cut to its /64, which one customer has to itself: within it addresses cost nothing. An IPv4
/// address mapped into IPv6 is told as the IPv4 one.
ngx_int_t getClient(ngx_http_request_t* request, ngx_http_variable_value_t* value, uintptr_t data);

}  // namespace sliding_log
