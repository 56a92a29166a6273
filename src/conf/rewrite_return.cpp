#include "conf/rewrite_return.hpp"

#include <iterator>

#include "conf/foreign_directive.hpp"

namespace sliding_log {

namespace {

/// The settings of the rewrite module are private to it. They are expected to begin with a pointer to the code that it
/// runs, nullptr if there is none.
const ngx_array_t* codesOf(const void* settings) {
    return *static_cast<const ngx_array_t* const*>(settings);
}

bool beginWithReturn(const ngx_array_t& codes) {
    if (codes.nelts < sizeof(ngx_http_script_return_code_t)) {
        return false;
    }
    ngx_http_script_code_pt first = nullptr;
    std::memcpy(&first, codes.elts, sizeof first);
    return first == ngx_http_script_return_code;
}

/// True if the memory is from this pool: from its block, or a large allocation.
bool isOf(const ngx_pool_t& pool, const void* memory, std::size_t size) {
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    const auto end = reinterpret_cast<uintptr_t>(pool.d.end);
    if (begin > reinterpret_cast<uintptr_t>(&pool) && begin < end) {
        return end - begin >= size;
    }
    const ngx_pool_large_t* piece = pool.large;
    while (piece != nullptr && piece->alloc != memory) {
        piece = piece->next;
    }
    return piece != nullptr && memory != nullptr;
}

/// Has the rewrite module of this nginx read a `return` into new settings, and checks that they become what is
/// expected. What they point to is read only if it is in the pool that it must come from.
bool isAsKnown(const ngx_conf_t& cf, const ForeignDirective& directive) {
    const TrialPool pool = newTrialPool(cf);
    if (pool == nullptr || directive.context().create_loc_conf == nullptr) {
        return false;
    }
    ngx_str_t words[] = {ngx_string("return"), ngx_string("204")};
    ngx_array_t arguments{words, std::size(words), sizeof(ngx_str_t), std::size(words), pool.get()};
    ngx_conf_t trial = cf;
    trial.args = &arguments;
    trial.pool = trial.temp_pool = pool.get();
    void* settings = directive.context().create_loc_conf(&trial);
    if (settings == nullptr || codesOf(settings) != nullptr ||
        directive.command->set(&trial, directive.command, settings) != NGX_CONF_OK) {
        return false;
    }
    const ngx_array_t* codes = codesOf(settings);
    return isOf(*pool, codes, sizeof *codes) && reinterpret_cast<uintptr_t>(codes) % alignof(ngx_array_t) == 0 &&
           codes->size == 1 && isOf(*pool, codes->elts, codes->nelts) && beginWithReturn(*codes);
}

}  // namespace

bool returnsFirst(ngx_conf_t* cf) {
    const ForeignDirective directive = findDirective(cf->cycle, "return");
    if (directive.module == nullptr) {
        return false;
    }
    const void* settings = ngx_http_conf_get_module_loc_conf(cf, (*directive.module));
    return settings != nullptr && codesOf(settings) != nullptr && isAsKnown(*cf, directive) &&
           beginWithReturn(*codesOf(settings));
}

}  // namespace sliding_log
