// The only file that includes nginx's headers, with helpers between nginx's C and C++.
#pragma once

extern "C" {
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>
}

#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

extern "C" ngx_module_t ngx_http_sliding_log_module;

namespace sliding_log {

inline std::string_view view(const ngx_str_t& text) {
    return {reinterpret_cast<const char*>(text.data), text.len};
}

/// A view as a string of nginx; it does not own the memory and must not be used to write.
inline ngx_str_t toNgx(std::string_view text) {
    return {text.size(), const_cast<u_char*>(reinterpret_cast<const u_char*>(text.data()))};
}

/// A value-initialised array in a pool; nullptr without memory. Pools run no destructors, hence the assert.
template <typename T>
T* poolNew(ngx_pool_t* pool, std::size_t count = 1) {
    static_assert(std::is_trivially_destructible_v<T>);
    void* memory = ngx_palloc(pool, sizeof(T) * count);
    return memory == nullptr ? nullptr : new (memory) T[count]();
}

/// A copy of the text in a pool; data() is nullptr without memory.
inline std::string_view poolCopy(ngx_pool_t* pool, std::string_view text) {
    auto* memory = static_cast<char*>(ngx_pnalloc(pool, text.size()));
    if (memory == nullptr) {
        return {};
    }
    std::memcpy(memory, text.data(), text.size());
    return {memory, text.size()};
}

/// Adds a field to the response; false without memory. The texts must live as long as the request.
inline bool addField(ngx_http_request_t* request, std::string_view name, std::string_view value) {
    auto* field = static_cast<ngx_table_elt_t*>(ngx_list_push(&request->headers_out.headers));
    if (field == nullptr) {
        return false;
    }
    *field = {};
    field->hash = 1;
    field->key = toNgx(name);
    field->value = toNgx(value);
    return true;
}

}  // namespace sliding_log
