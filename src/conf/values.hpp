// Setters and parsers that several directives share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "limit/number.hpp"
#include "ngx.hpp"

namespace sliding_log {

inline constexpr std::string_view kExpectedDuration = "an nginx time up to 366d, as 500ms, 10s or 1m";
inline constexpr std::string_view kExpectedTime = "an nginx time from 1ms to 366d, as 500ms, 10s or 1m";
inline constexpr std::string_view kExpectedStore = "the name of a sliding_log_redis block, or local";

/// nginx's time (`500ms`, `10s`, `1m30s`; a bare number is in seconds) in ms; nullopt if it is invalid or not in
/// [leastMs, kLongestTimeMs].
std::optional<std::int64_t> parseTime(const ngx_str_t& text, std::int64_t leastMs);

/// True if the text has a variable, `$name` or `${name}`, for whose name isMeant() is true. The name is passed in lower
/// case, as nginx takes it.
bool usesVariable(std::string_view text, const std::function<bool(std::string_view name)>& isMeant);

/// True if the text is this word in any case, as nginx takes the words of its own directives.
bool isWord(const ngx_str_t& text, std::string_view word);

/// `off` or `on`, for setChoice().
extern ngx_conf_enum_t gSwitch[];

/// One word of a list. cmd->post: an ngx_conf_enum_t[] that ends with an empty name. The field: an ngx_uint_t that is
/// NGX_CONF_UNSET_UINT before.
char* setChoice(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
