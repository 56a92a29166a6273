// What `nginx -t` warns of: allowed, and surely not meant.
#pragma once

#include "conf/limit_parameters.hpp"
#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// `$name` or `${name}` at the begin of a text that takes none, where somebody expects nginx to put a value.
bool beginsAsVariable(std::string_view text);

/// Numbers that a client chooses by what it sends, and an address that is no text; for the directive that is read.
void warnOfClientsChoice(ngx_conf_t* cf, const LimitDraft& draft);

/// A session or an API key in the key without secret=on. It may be made of such a variable and hold no secret.
void warnOfSecretInClear(ngx_conf_t* cf, const LimitDraft& draft);

/// A key without variables that reads like the name of one. For when all variables are known.
void warnOfForgottenDollar(ngx_conf_t* cf, const LimitSettings& limit);

/// Limits of a level's own that its `return` keeps from ever being asked. For when the level is merged.
void warnOfReturn(ngx_conf_t* cf, const ngx_array_t& limits);

/// Filters that were loaded behind this module, which run before it and do not see its fields.
void warnOfLoadOrder(ngx_conf_t* cf);

}  // namespace sliding_log
