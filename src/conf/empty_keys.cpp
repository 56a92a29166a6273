#include "conf/empty_keys.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "conf/auth_request_variable.hpp"
#include "conf/foreign_directive.hpp"
#include "conf/values.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

namespace {

bool isOfAnswer(std::string_view name) {
    constexpr std::string_view kNames[] = {
        "upstream_addr",        "upstream_status",         "upstream_connect_time",
        "upstream_header_time", "upstream_response_time",  "upstream_response_length",
        "upstream_bytes_sent",  "upstream_bytes_received", "upstream_cache_status"};
    constexpr std::string_view kFamilies[] = {"upstream_http_", "upstream_cookie_", "upstream_trailer_", "sent_http_",
                                              "sent_trailer_"};
    return std::ranges::find(kNames, name) != std::end(kNames) ||
           std::ranges::any_of(kFamilies, [&](std::string_view family) { return name.starts_with(family); });
}

bool isOfBody(std::string_view name) {
    return name == "request_body" || name == "request_body_file";
}

/// True if this nginx can read bodies before the access phase, and does so for the server, at least under a condition.
/// The setting of the directive is a pointer to its conditions, nullptr where there are none.
bool readsBodyEarly(const ngx_conf_t* cf) {
    const ForeignDirective directive = findDirective(cf->cycle, "client_body_early_read");
    if (directive.module == nullptr || directive.command->conf != NGX_HTTP_SRV_CONF_OFFSET) {
        return false;
    }
    const auto* context = static_cast<const ngx_http_conf_ctx_t*>(cf->ctx);
    const auto* settings = static_cast<const char*>(context->srv_conf[directive.module->ctx_index]);
    const void* conditions = nullptr;
    std::memcpy(&conditions, settings + directive.command->offset, sizeof conditions);
    return conditions != nullptr;
}

/// True if auth_request_set gives the variable its value, and nothing else does. The name is in lower case, as nginx
/// stores names.
bool isOfAuthRequest(const ngx_conf_t* cf, std::string_view name) {
    const auto* core =
        static_cast<const ngx_http_core_main_conf_t*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    const ngx_array_t& keys = core->variables_keys->keys;
    const std::span known(static_cast<const ngx_hash_key_t*>(keys.elts), keys.nelts);
    const auto found = std::ranges::find_if(known, [&](const ngx_hash_key_t& each) { return view(each.key) == name; });
    const auto* variable = found == known.end() ? nullptr : static_cast<const ngx_http_variable_t*>(found->value);
    return variable != nullptr && variable->get_handler != nullptr && variable->get_handler == authRequestHandler(*cf);
}

bool isEmpty(const ngx_conf_t* cf, std::string_view variable) {
    return isOfAnswer(variable) || (isOfBody(variable) && !readsBodyEarly(cf)) || isOfAuthRequest(cf, variable);
}

}  // namespace

void warnOfEmptyKeys(ngx_conf_t* cf, const ngx_array_t& limits) {
    const auto* core =
        static_cast<const ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (core->internal == 1 || core->named != 0) {
        return;
    }
    for (const LimitSettings* limit : std::span(static_cast<LimitSettings**>(limits.elts), limits.nelts)) {
        const ngx_str_t& key = limit->key->value;
        if (usesVariable(view(key), [&](std::string_view name) { return isEmpty(cf, name); })) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "\"sliding_log_limit\" %V: key=%V has a variable that is empty when the limit is asked, "
                          "requests with an empty key are not limited in %V:%ui",
                          &limit->log->name, &key, &limit->position.file, limit->position.line);
        }
    }
}

}  // namespace sliding_log
