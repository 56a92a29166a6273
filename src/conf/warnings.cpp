#include "conf/warnings.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "conf/rewrite_return.hpp"
#include "conf/values.hpp"

namespace sliding_log {

namespace {

bool isNameCharacter(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool beginsWith(std::string_view name, std::string_view begin) {
    return name.size() >= begin.size() &&
           ngx_strncasecmp(toNgx(name).data, toNgx(begin).data, begin.size()) == 0;  // nginx ignores case in names
}

bool isOfClient(std::string_view name) {
    return name.starts_with("arg_") || name.starts_with("http_") || name.starts_with("cookie_");
}

bool isBinaryAddress(std::string_view name) {
    return name == "binary_remote_addr";
}

bool isOfSecrets(std::string_view variable) {
    return variable == "http_authorization" || variable == "http_x_api_key" || variable.starts_with("cookie_");
}

void warnOfChosen(ngx_conf_t* cf, const LimitDraft& draft, const char* parameter,
                  const ngx_http_complex_value_t* variable) {
    if (variable != nullptr && usesVariable(view(variable->value), isOfClient)) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"sliding_log_limit\" %V: %s=%V is what the client chooses, let a map give it",
                           &draft.log.name, parameter, &variable->value);
    }
}

bool isVariable(ngx_conf_t* cf, const ngx_str_t& text) {
    const auto* core =
        static_cast<const ngx_http_core_main_conf_t*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    const auto isSame = [&](const ngx_str_t& name) {
        return name.len == text.len && beginsWith(view(text), view(name));
    };
    const ngx_array_t& keys = core->variables_keys->keys;
    const std::span known(static_cast<const ngx_hash_key_t*>(keys.elts), keys.nelts);
    const ngx_array_t& families = core->prefix_variables;
    const std::span begins(static_cast<const ngx_http_variable_t*>(families.elts), families.nelts);
    return std::ranges::any_of(known, [&](const ngx_hash_key_t& each) { return isSame(each.key); }) ||
           std::ranges::any_of(begins, [&](const ngx_http_variable_t& each) {
               return text.len > each.name.len && beginsWith(view(text), view(each.name));
           });
}

}  // namespace

bool beginsAsVariable(std::string_view text) {
    if (!text.starts_with('$')) {
        return false;
    }
    text.remove_prefix(text.starts_with("${") ? 2 : 1);
    return !text.empty() && isNameCharacter(text.front());
}

void warnOfClientsChoice(ngx_conf_t* cf, const LimitDraft& draft) {
    warnOfChosen(cf, draft, "limit", draft.limit.limitVariable);
    warnOfChosen(cf, draft, "cost", draft.limit.costVariable);
    warnOfChosen(cf, draft, "settle", draft.limit.settle);
    warnOfChosen(cf, draft, "store", draft.limit.storeVariable);
    if (usesVariable(view(draft.limit.key->value), isBinaryAddress)) {
        ngx_conf_log_error(
            NGX_LOG_WARN, cf, 0,
            "\"sliding_log_limit\" %V: $binary_remote_addr in its key is no text, so that nobody can read "
            "the keys, and each IPv6 client has as many as it likes, use $sliding_log_client",
            &draft.log.name);
    }
}

void warnOfSecretInClear(ngx_conf_t* cf, const LimitDraft& draft) {
    const ngx_str_t& key = draft.limit.key->value;
    if (draft.log.secrecy == Secrecy::Open && usesVariable(view(key), isOfSecrets)) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"sliding_log_limit\" %V has key \"%V\", which Redis and the dashboard show in clear, "
                           "expected secret=on with it (under a new NAME where this one is in use)",
                           &draft.log.name, &key);
    }
}

void warnOfForgottenDollar(ngx_conf_t* cf, const LimitSettings& limit) {
    const ngx_str_t& key = limit.key->value;
    if (limit.key->lengths == nullptr && isVariable(cf, key)) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"sliding_log_limit\" %V: key=%V has no variable; did you mean $%V? in %V:%ui", &limit.log->name,
                      &key, &key, &limit.position.file, limit.position.line);
    }
}

void warnOfUselessPrefetch(ngx_conf_t* cf, const LimitSettings& limit) {
    if (limit.prefetch > 1 && !limit.log->mayBeInRedis()) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"sliding_log_limit\" %V: prefetch=%L has no effect without Redis in %V:%ui", &limit.log->name,
                      limit.prefetch, &limit.position.file, limit.position.line);
    }
}

void warnOfShrinkingBlocks(ngx_conf_t* cf, const LimitSettings& limit) {
    const BlockTimes& times = limit.blockTimes;
    if (!std::is_sorted(times.ms.begin(), times.ms.begin() + times.count)) {
        ngx_log_error(
            NGX_LOG_WARN, cf->log, 0,
            "\"sliding_log_limit\" %V: a time of its block= is shorter than the one before, so that a client who "
            "goes on is blocked for less, expected growing times, as block=1m,10m,1h in %V:%ui",
            &limit.log->name, &limit.position.file, limit.position.line);
    }
}

void warnOfUselessOverride(ngx_conf_t* cf, const LimitSettings& limit) {
    if (limit.log->override != OverrideBy::None && !limit.log->mayBeInRedis()) {
        const ngx_str_t word = toNgx(nameOf(limit.log->override));
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"sliding_log_limit\" %V: override=%V has no effect without Redis in %V:%ui", &limit.log->name,
                      &word, &limit.position.file, limit.position.line);
    }
}

void warnOfReturn(ngx_conf_t* cf, const ngx_array_t& limits) {
    if (limits.nelts > 0 && returnsFirst(cf)) {
        const LimitSettings& limit = **static_cast<LimitSettings**>(limits.elts);
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"sliding_log_limit\" %V: the \"return\" beside it answers before any limit is asked in %V:%ui",
                      &limit.log->name, &limit.position.file, limit.position.line);
    }
}

void warnOfLoadOrder(ngx_conf_t* cf) {
    constexpr std::string_view kFilters[] = {"ngx_http_lua_module", "ngx_http_headers_more_filter_module",
                                             "ngx_http_js_module"};
    bool isBehind = false;
    for (ngx_module_t** module = cf->cycle->modules; *module != nullptr; module++) {
        if (isBehind && std::ranges::find(kFilters, (*module)->name) != std::end(kFilters)) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "%s is loaded behind ngx_http_sliding_log_module, so it does not see the response fields of "
                          "sliding_log_headers, put its load_module first",
                          (*module)->name);
        }
        isBehind = isBehind || *module == &ngx_http_sliding_log_module;
    }
}

}  // namespace sliding_log
