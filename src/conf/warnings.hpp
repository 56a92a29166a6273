// Warnings of `nginx -t`: for what is allowed and most likely a mistake.
#pragma once

#include "conf/limit_parameters.hpp"
#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// True if a text without variables begins with `$name` or `${name}`, as if nginx replaced it by a value.
bool beginsAsVariable(std::string_view text);

/// Numbers that a client chooses by what it sends, and an address that is not text. For the directive that is being
/// read.
void warnOfClientsChoice(ngx_conf_t* cf, const LimitDraft& draft);

/// A session or an API key in `key=` without secret=on. It may be only a part of it, and not a secret.
void warnOfSecretInClear(ngx_conf_t* cf, const LimitDraft& draft);

/// A key without variables that is the name of a variable. To be called when all variables are known.
void warnOfForgottenDollar(ngx_conf_t* cf, const LimitSettings& limit);

/// `prefetch=` of a limit that no Redis decides. To be called when its store is known.
void warnOfUselessPrefetch(ngx_conf_t* cf, const LimitSettings& limit);

/// If a later time of block= is shorter than an earlier one.
void warnOfShrinkingBlocks(ngx_conf_t* cf, const LimitSettings& limit);

/// The same of `override=on`: no record is read.
void warnOfUselessOverride(ngx_conf_t* cf, const LimitSettings& limit);

/// Limits of a level that are never asked because of its `return`. To be called when the level is merged.
void warnOfReturn(ngx_conf_t* cf, const ngx_array_t& limits);

/// Filters that are loaded after this module: they run before it and do not see its fields.
void warnOfLoadOrder(ngx_conf_t* cf);

}  // namespace sliding_log
