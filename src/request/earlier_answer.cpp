#include "request/earlier_answer.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace sliding_log {

namespace {

constexpr std::string_view kCacheControl = "Cache-Control";
constexpr std::string_view kChallenge = "WWW-Authenticate";  // also from the upstream of auth_request
constexpr std::string_view kNoStore = "no-store";
constexpr std::size_t kLongestCarried = 32;  // bytes: names of fields that nginx carries over are shorter

using Headers = ngx_http_headers_out_t;

bool isCalled(const ngx_table_elt_t& field, std::string_view name) {
    return field.key.len == name.size() && ngx_strncasecmp(field.key.data, toNgx(name).data, name.size()) == 0;
}

template <typename Visit>
void forEachField(ngx_list_t& fields, Visit visit) {
    for (ngx_list_part_t* part = &fields.part; part != nullptr; part = part->next) {
        for (ngx_table_elt_t& field : std::span(static_cast<ngx_table_elt_t*>(part->elts), part->nelts)) {
            visit(field);
        }
    }
}

/// A field that nginx copied from this answer still has the name of the original.
bool isCopyFrom(ngx_http_upstream_t& upstream, const ngx_table_elt_t& field) {
    bool isCopy = false;
    forEachField(upstream.headers_in.headers,
                 [&](const ngx_table_elt_t& original) { isCopy = isCopy || original.key.data == field.key.data; });
    return isCopy;
}

/// True if several upstreams have answered in turn: nginx then lists a state without an address between theirs. The
/// request knows only the latest one.
bool hasEarlierUpstreams(const ngx_http_request_t* request) {
    const ngx_array_t* states = request->upstream_states;
    return states != nullptr &&
           std::ranges::any_of(std::span(static_cast<const ngx_http_upstream_state_t*>(states->elts), states->nelts),
                               [](const ngx_http_upstream_state_t& state) { return state.peer == nullptr; });
}

/// True if nginx lets a field of this name pass X-Accel-Redirect.
bool isCarriedOver(ngx_http_request_t* request, const ngx_table_elt_t& field) {
    if (field.key.len > kLongestCarried) {
        return false;
    }
    std::array<u_char, kLongestCarried> name;
    const ngx_uint_t hash = ngx_hash_strlow(name.data(), field.key.data, field.key.len);
    auto* main =
        static_cast<ngx_http_upstream_main_conf_t*>(ngx_http_get_module_main_conf(request, ngx_http_upstream_module));
    const auto* known = static_cast<const ngx_http_upstream_header_t*>(
        ngx_hash_find(&main->headers_in_hash, hash, name.data(), field.key.len));
    return known != nullptr && known->redirect != 0;
}

#if nginx_version >= 1023000

/// The shortcut to fields that may occur several times is a list.
using Several = ngx_table_elt_t*;

void forgetShortcut(Several& fields, const ngx_table_elt_t& field) {
    ngx_table_elt_t** link = &fields;
    while (*link != nullptr && *link != &field) {
        link = &(*link)->next;
    }
    if (*link != nullptr) {
        *link = field.next;
    }
}

bool addShortcut(ngx_pool_t*, Several& fields, ngx_table_elt_t& field) {
    field.next = fields;
    fields = &field;
    return true;
}

#else

/// The shortcut to fields that may occur several times is an array.
using Several = ngx_array_t;

void forgetShortcut(Several& fields, const ngx_table_elt_t& field) {
    const std::span all(static_cast<ngx_table_elt_t**>(fields.elts), fields.nelts);
    fields.nelts -= std::ranges::remove(all, &field).size();
}

bool addShortcut(ngx_pool_t* pool, Several& fields, ngx_table_elt_t& field) {
    if (fields.elts == nullptr && ngx_array_init(&fields, pool, 1, sizeof(ngx_table_elt_t*)) != NGX_OK) {
        return false;
    }
    auto** shortcut = static_cast<ngx_table_elt_t**>(ngx_array_push(&fields));
    if (shortcut != nullptr) {
        *shortcut = &field;
    }
    return shortcut != nullptr;
}

#endif

/// Later modules must not find it by its shortcut either. `next` of a field that occurs once may be uninitialised.
void remove(Headers& fields, ngx_table_elt_t& field) {
    constexpr ngx_table_elt_t* Headers::*kShortcuts[] = {
        &Headers::server,           &Headers::date,          &Headers::content_length,
        &Headers::content_encoding, &Headers::location,      &Headers::refresh,
        &Headers::last_modified,    &Headers::content_range, &Headers::accept_ranges,
        &Headers::www_authenticate, &Headers::expires,       &Headers::etag};
    for (const auto shortcut : kShortcuts) {
        fields.*shortcut = fields.*shortcut == &field ? nullptr : fields.*shortcut;
    }
    forgetShortcut(fields.cache_control, field);
    forgetShortcut(fields.link, field);
    field.hash = 0;
}

}  // namespace

void forgetEarlierAnswer(ngx_http_request_t* request) {
    Headers& fields = request->headers_out;
    ngx_http_upstream_t* upstream = request->upstream;
    const bool isChain = hasEarlierUpstreams(request);
    forEachField(fields.headers, [&](ngx_table_elt_t& field) {
        if ((upstream != nullptr && isCopyFrom(*upstream, field)) || (isChain && isCarriedOver(request, field)) ||
            (request->internal != 0 && isCalled(field, kChallenge))) {
            remove(fields, field);
        }
    });
    if (upstream == nullptr) {
        return;
    }
    fields.trailers.part.nelts = 0;
    fields.trailers.part.next = nullptr;
    fields.trailers.last = &fields.trailers.part;
    fields.content_length_n = -1;
    fields.last_modified_time = -1;
    ngx_str_null(&fields.content_type);
    fields.content_type_len = 0;
    fields.content_type_lowcase = nullptr;
    ngx_str_null(&fields.charset);
    fields.override_charset = nullptr;
    request->allow_ranges = 0;
}

bool isStoredByCaches(ngx_uint_t status) {
    constexpr ngx_uint_t kStored[] = {NGX_HTTP_NOT_FOUND, NGX_HTTP_NOT_ALLOWED, 410, NGX_HTTP_REQUEST_URI_TOO_LARGE,
                                      NGX_HTTP_NOT_IMPLEMENTED};
    return std::ranges::find(kStored, status) != std::end(kStored);
}

bool forbidStoring(ngx_http_request_t* request) {
    Headers& fields = request->headers_out;
    if (request->upstream != nullptr) {
        forEachField(fields.headers, [&](ngx_table_elt_t& field) {
            if (field.hash != 0 && isCalled(field, kCacheControl)) {
                remove(fields, field);
            }
        });
    }
    bool isForbidden = false;
    forEachField(fields.headers, [&](const ngx_table_elt_t& field) {
        isForbidden =
            isForbidden || (field.hash != 0 && isCalled(field, kCacheControl) && view(field.value) == kNoStore);
    });
    if (isForbidden) {
        return true;
    }
    auto* field = static_cast<ngx_table_elt_t*>(ngx_list_push(&fields.headers));
    if (field == nullptr) {
        return false;
    }
    *field = {};
    field->hash = 1;
    field->key = toNgx(kCacheControl);
    field->value = toNgx(kNoStore);
    return addShortcut(request->pool, fields.cache_control, *field);
}

}  // namespace sliding_log
