#include "conf/directives.hpp"

#include <optional>

#include "conf/refuse.hpp"
#include "conf/values.hpp"
#include "limit/number.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

constexpr off_t kLargestZone = off_t{64} * 1024 * 1024 * 1024;
constexpr std::int64_t kMostNodes = 1'000'000;

ngx_conf_enum_t gOnErrors[] = {
    {ngx_string("allow"), static_cast<ngx_uint_t>(OnError::Allow)},
    {ngx_string("deny"), static_cast<ngx_uint_t>(OnError::Deny)},
    {ngx_string("local"), static_cast<ngx_uint_t>(OnError::Local)},
    {ngx_null_string, 0},
};

}  // namespace

char* setStatus(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.status != NGX_CONF_UNSET_UINT) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    const std::string_view text = view(static_cast<ngx_str_t*>(cf->args->elts)[1]);
    const std::optional<std::int64_t> code = parseCount(text);
    if (!code || *code < 400 || *code > 599) {
        return refuse(cf, view(cmd->name), "code", text, "a status from 400 to 599");
    }
    location.status = static_cast<ngx_uint_t>(*code);
    return kConfOk;
}

char* setOnError(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& location = *static_cast<LocationSettings*>(conf);
    ngx_command_t choice = *cmd;
    choice.offset = offsetof(LocationSettings, onError);
    choice.post = gOnErrors;
    if (char* rv = setChoice(cf, &choice, conf); rv != kConfOk) {
        return rv;
    }
    location.nodes = 1;  // a level that sets on_error does not inherit the number of nodes
    if (cf->args->nelts < 3) {
        return kConfOk;
    }
    const std::string_view word = view(static_cast<ngx_str_t*>(cf->args->elts)[2]);
    const bool isNodes = word.starts_with("nodes=") && location.onError == static_cast<ngx_uint_t>(OnError::Local);
    const std::optional<std::int64_t> nodes = isNodes ? parseCount(word.substr(sizeof("nodes=") - 1)) : std::nullopt;
    if (!nodes || *nodes < 1 || *nodes > kMostNodes) {
        return refuse(cf, view(cmd->name), "parameter", word, "nodes=NUMBER after local, as local nodes=3");
    }
    location.nodes = static_cast<ngx_uint_t>(*nodes);
    return kConfOk;
}

char* setZone(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& main = *static_cast<MainSettings*>(conf);
    if (main.zoneSize != NGX_CONF_UNSET_SIZE) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    ngx_str_t text = static_cast<ngx_str_t*>(cf->args->elts)[1];
    const off_t size = ngx_parse_offset(&text);
    if (size < static_cast<off_t>(8 * pageBytes()) || size > kLargestZone) {
        return refuse(cf, view(cmd->name), "size", view(text), "a size of at least 32k and at most 64g, as 10m");
    }
    main.zoneSize = static_cast<size_t>(size);
    return kConfOk;
}

}  // namespace sliding_log
