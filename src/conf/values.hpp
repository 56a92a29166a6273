// Setters and parsers that several directives share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "limit/number.hpp"
#include "ngx.hpp"

namespace sliding_log {

inline constexpr std::string_view kExpectedDuration = "an nginx time up to 366d, as 500ms, 10s or 1m";
inline constexpr std::string_view kExpectedTime = "an nginx time from 1ms to 366d, as 500ms, 10s or 1m";

/// nginx's time (`500ms`, `10s`, `1m30s`; a bare number is seconds) in ms; nullopt when it is none or not in
/// [leastMs, kLongestTimeMs].
std::optional<std::int64_t> parseTime(const ngx_str_t& text, std::int64_t leastMs);

/// True when the text uses a variable, as `$name` or `${name}`, of a name that is meant; in lower case, as nginx takes
/// it.
bool usesVariable(std::string_view text, bool (*isMeant)(std::string_view name));

/// True when the text is that word, in whatever case, as nginx takes the words of its own directives.
bool isWord(const ngx_str_t& text, std::string_view word);

/// `off` or `on` for setChoice.
extern ngx_conf_enum_t gSwitch[];

/// A word out of a list: cmd->post is an ngx_conf_enum_t[] ended by an empty name; the field an ngx_uint_t that is
/// NGX_CONF_UNSET_UINT before.
char* setChoice(ngx_conf_t* cf, ngx_command_t* cmd, void* conf);

}  // namespace sliding_log
