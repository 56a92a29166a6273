#include "conf/auth_request_variable.hpp"

#include <algorithm>
#include <iterator>

#include "conf/foreign_directive.hpp"

namespace sliding_log {

/// The handler is private to its module, so that is made to read a directive of its own on a trial: its settings and
/// its variable are new, and go with the pool.
ngx_http_get_variable_pt authRequestHandler(const ngx_conf_t& cf) {
    const ForeignDirective directive = findDirective(cf.cycle, "auth_request_set");
    const TrialPool pool = newTrialPool(cf);
    if (directive.module == nullptr || pool == nullptr || directive.context().create_loc_conf == nullptr) {
        return nullptr;
    }
    ngx_hash_keys_arrays_t names{};
    names.pool = names.temp_pool = pool.get();
    auto** settings = poolNew<void*>(pool.get(), ngx_http_max_module);
    if (settings == nullptr || ngx_hash_keys_array_init(&names, NGX_HASH_SMALL) != NGX_OK) {
        return nullptr;
    }
    ngx_http_core_main_conf_t core{};
    core.variables_keys = &names;
    ngx_http_conf_ctx_t contexts = *static_cast<const ngx_http_conf_ctx_t*>(cf.ctx);
    std::copy_n(contexts.main_conf, ngx_http_max_module, settings);
    settings[ngx_http_core_module.ctx_index] = &core;
    contexts.main_conf = settings;

    ngx_str_t words[] = {ngx_string("auth_request_set"), ngx_string("$sliding_log_trial"), ngx_string("text")};
    ngx_array_t arguments{words, std::size(words), sizeof(ngx_str_t), std::size(words), pool.get()};
    ngx_conf_t trial = cf;
    trial.args = &arguments;
    trial.pool = trial.temp_pool = pool.get();
    trial.ctx = &contexts;
    void* own = directive.context().create_loc_conf(&trial);
    if (own == nullptr || directive.command->set(&trial, directive.command, own) != NGX_CONF_OK ||
        names.keys.nelts != 1) {
        return nullptr;
    }
    const auto* name = static_cast<const ngx_hash_key_t*>(names.keys.elts);
    return static_cast<const ngx_http_variable_t*>(name->value)->get_handler;
}

}  // namespace sliding_log
