// How every configuration error reads: the directive, the offending text, what was expected, then nginx's file:line.
#pragma once

#include <string_view>

#include "conf/settings.hpp"
#include "ngx.hpp"

namespace sliding_log {

inline char* const kConfOk = nullptr;  // NGX_CONF_OK
inline char* const kConfError = static_cast<char*>(NGX_CONF_ERROR);

/// Logs `"<directive>" has invalid <what> "<text>", expected <expected> in nginx.conf:7` and returns kConfError.
inline char* refuse(ngx_conf_t* cf, std::string_view directive, std::string_view what, std::string_view text,
                    std::string_view expected) {
    const ngx_str_t words[] = {toNgx(directive), toNgx(what), toNgx(text), toNgx(expected)};
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" has invalid %V \"%V\", expected %V", &words[0], &words[1],
                       &words[2], &words[3]);
    return kConfError;
}

/// Where the directive that is being read stands, for a message of refuseAt() when all is read.
inline Place placeOf(const ngx_conf_t* cf) {
    return {cf->conf_file->file.name, cf->conf_file->line};
}

/// As refuse(), for a directive that was read before; `directive` says which, quotes included.
inline char* refuseAt(ngx_conf_t* cf, const Place& place, std::string_view directive, std::string_view what,
                      std::string_view text, std::string_view expected) {
    const ngx_str_t words[] = {toNgx(directive), toNgx(what), toNgx(text), toNgx(expected)};
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "%V has invalid %V \"%V\", expected %V in %V:%ui", &words[0], &words[1],
                  &words[2], &words[3], &place.file, place.line);
    return kConfError;
}

/// The same for something that is not there.
inline char* refuseLack(ngx_conf_t* cf, const Place& place, std::string_view directive, std::string_view parameter,
                        std::string_view expected) {
    const ngx_str_t words[] = {toNgx(directive), toNgx(parameter), toNgx(expected)};
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "%V has no \"%V\" parameter, expected %V in %V:%ui", &words[0], &words[1],
                  &words[2], &place.file, place.line);
    return kConfError;
}

/// The same for something given twice: `"<directive>" has duplicate <what>, expected it once`.
inline char* refuseDuplicate(ngx_conf_t* cf, std::string_view directive, std::string_view what) {
    const ngx_str_t words[] = {toNgx(directive), toNgx(what)};
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" has duplicate %V, expected it once", &words[0], &words[1]);
    return kConfError;
}

}  // namespace sliding_log
