// A location whose answer the module makes itself: to GET and HEAD, and kept by no cache.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "conf/settings.hpp"
#include "ngx.hpp"

namespace sliding_log {

struct OwnField {
    std::string_view name;
    std::string_view value;  // both live as long as the process, or the request's pool
};

struct OwnAnswer {
    ngx_buf_t* body;  // nullptr: memory is short
    std::string_view contentType;
    std::span<const OwnField> fields;  // beside Cache-Control
};

/// The content handler of such a location; make() may throw.
ngx_int_t answerItself(ngx_http_request_t* request, OwnAnswer (*make)(ngx_http_request_t* request)) noexcept;

/// The setter of its directive.
char* setOwnAnswer(ngx_conf_t* cf, const ngx_command_t& cmd, void* conf, ngx_http_handler_pt handler);

/// For when a level is merged: an `if` or `limit_except` inside such a location answers as it does, under its limits,
/// and nothing else may answer in its place.
char* inheritOwnAnswer(ngx_conf_t* cf, const LocationSettings& from, LocationSettings& to);

}  // namespace sliding_log
