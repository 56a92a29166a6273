#include "metrics/own_answer.hpp"

#include <algorithm>
#include <exception>
#include <string>

#include "conf/refuse.hpp"
#include "conf/rewrite_return.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kExpectedLocation = "one that no other directive answers";

bool addField(ngx_http_request_t* request, const OwnField& made) {
    auto* field = static_cast<ngx_table_elt_t*>(ngx_list_push(&request->headers_out.headers));
    if (field == nullptr) {
        return false;
    }
    *field = {};
    field->hash = 1;
    field->key = toNgx(made.name);
    field->value = toNgx(made.value);
    return true;
}

bool addFields(ngx_http_request_t* request, std::span<const OwnField> fields) {
    return addField(request, {"Cache-Control", "no-store"}) &&
           std::ranges::all_of(fields, [&](const OwnField& each) { return addField(request, each); });
}

ngx_int_t answer(ngx_http_request_t* request, OwnAnswer (*make)(ngx_http_request_t*)) {
    if ((request->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) == 0) {
        return NGX_HTTP_NOT_ALLOWED;
    }
    if (const ngx_int_t rc = ngx_http_discard_request_body(request); rc != NGX_OK) {
        return rc;
    }
    const OwnAnswer made = make(request);
    if (made.body == nullptr || !addFields(request, made.fields)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    made.body->last_buf = request == request->main ? 1 : 0;
    made.body->last_in_chain = 1;
    request->headers_out.status = NGX_HTTP_OK;
    request->headers_out.content_length_n = made.body->last - made.body->pos;
    request->headers_out.content_type = toNgx(made.contentType);
    // without parameters, so that types of gzip and the like match; nginx adds no charset of its own then
    request->headers_out.content_type_len = std::min(made.contentType.find(';'), made.contentType.size());
    const ngx_int_t rc = ngx_http_send_header(request);
    if (rc == NGX_ERROR || rc > NGX_OK || request->header_only != 0) {
        return rc;
    }
    ngx_chain_t chain{made.body, nullptr};
    return ngx_http_output_filter(request, &chain);
}

}  // namespace

ngx_int_t answerItself(ngx_http_request_t* request, OwnAnswer (*make)(ngx_http_request_t*)) noexcept try {
    return answer(request, make);
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

char* setOwnAnswer(ngx_conf_t* cf, const ngx_command_t& cmd, void* conf, ngx_http_handler_pt handler) {
    auto& location = *static_cast<LocationSettings*>(conf);
    auto* core = static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (location.ownAnswer == handler) {
        return refuseDuplicate(cf, view(cmd.name), "directive");
    }
    if (core->handler != nullptr) {
        return refuse(cf, view(cmd.name), "location", view(core->name), kExpectedLocation);
    }
    location.ownAnswer = core->handler = handler;
    location.ownAnswerName = cmd.name;
    location.ownAnswerPlace = placeOf(cf);
    return kConfOk;
}

char* inheritOwnAnswer(ngx_conf_t* cf, const LocationSettings& from, LocationSettings& to) {
    auto* core = static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (core->noname != 0 && core->handler == nullptr && from.ownAnswer != nullptr) {
        to.ownAnswer = core->handler = from.ownAnswer;
        to.limits = from.limits;
        return kConfOk;
    }
    if (to.ownAnswer == nullptr || (core->handler == to.ownAnswer && !returnsFirst(cf))) {
        return kConfOk;
    }
    return refuseAt(cf, to.ownAnswerPlace, std::string("\"").append(view(to.ownAnswerName)).append("\""), "location",
                    view(core->name), kExpectedLocation);
}

}  // namespace sliding_log
