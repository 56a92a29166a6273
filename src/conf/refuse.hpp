// Errors of the configuration: in nginx's words, then what was expected; nginx adds file and line.
#pragma once

#include <string_view>

#include "ngx.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

inline char* const kConfOk = nullptr;  // NGX_CONF_OK
inline char* const kConfError = static_cast<char*>(NGX_CONF_ERROR);

/// Logs `invalid <what> "<text>" in "<directive>" directive, expected <expected> in nginx.conf:7` and returns
/// kConfError.
inline char* refuse(ngx_conf_t* cf, std::string_view directive, std::string_view what, std::string_view text,
                    std::string_view expected) {
    const ngx_str_t words[] = {toNgx(what), toNgx(text), toNgx(directive), toNgx(expected)};
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid %V \"%V\" in \"%V\" directive, expected %V", &words[0], &words[1],
                       &words[2], &words[3]);
    return kConfError;
}

/// Logs `"<directive> <text>" is not allowed here, expected <expected>`: something else is missing, or excludes it. The
/// text is empty if it may be a secret.
inline char* refuseHere(ngx_conf_t* cf, std::string_view directive, std::string_view text, std::string_view expected) {
    const ngx_str_t words[] = {toNgx(directive), toNgx(text.empty() ? "" : " "), toNgx(text), toNgx(expected)};
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V%V%V\" is not allowed here, expected %V", &words[0], &words[1],
                       &words[2], &words[3]);
    return kConfError;
}

/// Logs `"<directive>" directive is duplicate`.
inline char* refuseDuplicate(ngx_conf_t* cf, std::string_view directive) {
    const ngx_str_t word = toNgx(directive);
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" directive is duplicate", &word);
    return kConfError;
}

/// Logs `duplicate <what> "<text>" in "<directive>" directive`.
inline char* refuseDuplicate(ngx_conf_t* cf, std::string_view directive, std::string_view what, std::string_view text) {
    const ngx_str_t words[] = {toNgx(what), toNgx(text), toNgx(directive)};
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate %V \"%V\" in \"%V\" directive", &words[0], &words[1],
                       &words[2]);
    return kConfError;
}

/// The position of the directive that is being read, for messages after it was read.
inline ConfPosition positionOf(const ngx_conf_t* cf) {
    return {cf->conf_file->file.name, cf->conf_file->line};
}

/// Like refuse(), for a directive that was read before.
inline char* refuseAt(ngx_conf_t* cf, const ConfPosition& position, std::string_view directive, std::string_view what,
                      std::string_view text, std::string_view expected) {
    const ngx_str_t words[] = {toNgx(what), toNgx(text), toNgx(directive), toNgx(expected)};
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "invalid %V \"%V\" in \"%V\" directive, expected %V in %V:%ui", &words[0],
                  &words[1], &words[2], &words[3], &position.file, position.line);
    return kConfError;
}

/// Logs `"<directive>" directive must have "<parameter>" parameter, expected <expected>`.
inline char* refuseLack(ngx_conf_t* cf, const ConfPosition& position, std::string_view directive,
                        std::string_view parameter, std::string_view expected) {
    const ngx_str_t words[] = {toNgx(directive), toNgx(parameter), toNgx(expected)};
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "\"%V\" directive must have \"%V\" parameter, expected %V in %V:%ui",
                  &words[0], &words[1], &words[2], &position.file, position.line);
    return kConfError;
}

}  // namespace sliding_log
