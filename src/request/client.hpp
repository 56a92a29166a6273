// $sliding_log_client: the address of the client, as a key for limits.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// ngx_http_variable_t::get_handler. The address of the client as text, as in $remote_addr (set by realip, if it is
/// used). An IPv6 address is cut to its /64, since one customer usually has all addresses of it. An IPv4 address mapped
/// into IPv6 becomes the IPv4 address.
ngx_int_t getClient(ngx_http_request_t* request, ngx_http_variable_value_t* value, uintptr_t data);

}  // namespace sliding_log
