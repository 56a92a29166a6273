#include "request/answer.hpp"

#include <algorithm>
#include <span>

#include "limit/number.hpp"
#include "request/earlier_answer.hpp"

namespace sliding_log {

namespace {

/// A problem type of draft-ietf-httpapi-ratelimit-headers-11, and the status that gRPC has for it.
struct Problem {
    std::string_view type;
    std::string_view title;
    std::string_view grpcStatus;
};

constexpr Problem kQuotaExceeded = {"https://iana.org/assignments/http-problem-types#quota-exceeded",
                                    "Request cannot be satisfied as assigned quota has been exceeded", "8"};
constexpr Problem kReducedCapacity = {"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                                      "Request cannot be satisfied due to temporary server capacity constraints", "14"};

constexpr std::size_t kAnythingElse = 64;  // bytes: punctuation, names of members, a status

bool isAnsweredByNginx(ngx_uint_t status) {
    constexpr ngx_uint_t kClosing[] = {NGX_HTTP_REQUEST_TIME_OUT, NGX_HTTP_CLOSE, NGX_HTTP_CLIENT_CLOSED_REQUEST};
    return std::ranges::find(kClosing, status) != std::end(kClosing) ||
           (status >= NGX_HTTP_REQUEST_HEADER_TOO_LARGE && status <= NGX_HTTP_TO_HTTPS);
}

/// As ngx_http_special_response_handler() looks for it.
bool hasErrorPage(const ngx_http_request_t* request, ngx_uint_t status) {
    const auto* core =
        static_cast<const ngx_http_core_loc_conf_t*>(ngx_http_get_module_loc_conf(request, ngx_http_core_module));
    if (core->error_pages == nullptr || request->error_page || request->uri_changes == 0) {
        return false;
    }
    const std::span pages(static_cast<const ngx_http_err_page_t*>(core->error_pages->elts), core->error_pages->nelts);
    return std::ranges::find(pages, static_cast<ngx_int_t>(status), &ngx_http_err_page_t::status) != pages.end();
}

/// gRPC over HTTP/2: `application/grpc`, with a message format behind a `+`. Not gRPC-Web, which understands statuses
/// of HTTP. The method is that of the client: an internal redirect makes it a GET.
bool isGrpc(const ngx_http_request_t* request) {
    constexpr std::string_view kType = "application/grpc";
    if (request->http_version != NGX_HTTP_VERSION_20 || !view(request->request_line).starts_with("POST ") ||
        request->headers_in.content_type == nullptr) {
        return false;
    }
    const std::string_view type = view(request->headers_in.content_type->value);
    return type.size() >= kType.size() && ngx_strncasecmp(toNgx(type).data, toNgx(kType).data, kType.size()) == 0 &&
           (type.size() == kType.size() || std::string_view("+; ").find(type[kType.size()]) != std::string_view::npos);
}

/// Text in the pool of the request, within a capacity.
class Writer {
  public:
    Writer(ngx_pool_t* pool, std::size_t capacity)
        : begin_(static_cast<char*>(ngx_pnalloc(pool, capacity))), end_(begin_) {}

    bool hasMemory() const { return begin_ != nullptr; }
    std::string_view view() const { return {begin_, static_cast<std::size_t>(end_ - begin_)}; }

    Writer& operator<<(std::string_view text) {
        end_ = std::ranges::copy(text, end_).out;
        return *this;
    }

  private:
    char* begin_;
    char* end_;
};

/// Calls visit(NAME) for each limit that denies, in the order of the configuration.
template <typename Visit>
void forEachDenier(const Round& round, const Outcome& outcome, Visit visit) {
    for (std::size_t nth = 0; nth < round.count; nth++) {
        const Decision& decision = round.configured(nth);
        const bool isUnknown = decision.source == Source::Error && (outcome.isUndecided || decision.limit == 0);
        if (isUnknown || (!outcome.isUndecided && decision.isDenied())) {
            visit(view(decision.settings->log->name));
        }
    }
}

/// Writes the names of the limits that deny. They have no character that JSON or gRPC would escape.
void writeDeniers(Writer& out, const Round& round, const Outcome& outcome, std::string_view quote) {
    std::string_view separator;
    forEachDenier(round, outcome, [&](std::string_view name) {
        out << separator << quote << name << quote;
        separator = quote.empty() ? ", " : ",";
    });
}

std::size_t capacityOf(const Problem& problem, const Round& round) {
    std::size_t capacity = problem.type.size() + problem.title.size() + kAnythingElse;
    for (const Decision& each : round.all()) {
        capacity += each.settings->log->name.len + sizeof("\"\",") - 1;
    }
    return capacity;
}

/// What other modules have told of the location's own answer does not describe this one.
void setContentType(ngx_http_request_t* request, std::string_view type) {
    ngx_http_clear_content_length(request);
    ngx_http_clear_accept_ranges(request);
    ngx_http_clear_last_modified(request);
    ngx_http_clear_etag(request);
    request->headers_out.content_type = toNgx(type);
    request->headers_out.content_type_len = type.size();
    request->headers_out.content_type_lowcase = nullptr;
    ngx_str_null(&request->headers_out.charset);
}

/// The body of the request is not read first, and not asked for with 100-continue.
void discardBody(ngx_http_request_t* request) {
    request->expect_tested = 1;
    if (ngx_http_discard_request_body(request) != NGX_OK) {
        request->keepalive = 0;
    }
}

/// After these statuses nginx closes the connection.
bool endsConnection(ngx_uint_t status) {
    constexpr ngx_uint_t kStatuses[] = {NGX_HTTP_BAD_REQUEST, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                        NGX_HTTP_REQUEST_URI_TOO_LARGE, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                        NGX_HTTP_NOT_IMPLEMENTED};
    return std::ranges::find(kStatuses, status) != std::end(kStatuses);
}

ngx_int_t sendProblem(ngx_http_request_t* request, const Problem& problem, const Round& round, const Outcome& outcome) {
    Writer text(request->pool, capacityOf(problem, round));
    auto* body = static_cast<ngx_buf_t*>(ngx_calloc_buf(request->pool));
    if (!text.hasMemory() || body == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    text << R"({"type":")" << problem.type << R"(","title":")" << problem.title << R"(","status":)"
         << DecimalText(static_cast<std::int64_t>(outcome.status)).view() << R"(,"violated-policies":[)";
    writeDeniers(text, round, outcome, "\"");
    text << "]}\n";
    const ngx_str_t content = toNgx(text.view());
    body->pos = content.data;
    body->last = content.data + content.len;
    body->memory = body->last_buf = body->last_in_chain = 1;

    request->err_status = outcome.status;
    request->keepalive = request->keepalive && !endsConnection(outcome.status) ? 1 : 0;
    discardBody(request);
    setContentType(request, "application/problem+json");
    request->headers_out.content_length_n = static_cast<off_t>(content.len);
    const ngx_int_t rc = ngx_http_send_header(request);
    if (rc == NGX_ERROR || rc > NGX_OK || request->header_only) {
        return rc;
    }
    ngx_chain_t chain{body, nullptr};
    return ngx_http_output_filter(request, &chain);
}

/// "Trailers-Only": the status is in the header, which ends the stream.
ngx_int_t sendGrpcStatus(ngx_http_request_t* request, const Problem& problem, const Round& round,
                         const Outcome& outcome) {
    Writer message(request->pool, capacityOf(problem, round));
    if (!message.hasMemory()) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    message << problem.title << ": ";
    writeDeniers(message, round, outcome, "");
    if (!addField(request, "grpc-status", problem.grpcStatus) || !addField(request, "grpc-message", message.view()) ||
        !forbidStoring(request)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    discardBody(request);
    setContentType(request, "application/grpc");
    request->err_status = 0;
    request->headers_out.status = NGX_HTTP_OK;
    request->header_only = 1;
    return ngx_http_send_header(request);
}

}  // namespace

ngx_int_t answerDenied(ngx_http_request_t* request, const LocationSettings& location, const Round& round,
                       const Outcome& outcome) {
    forgetEarlierAnswer(request);
    if (location.answer == static_cast<ngx_uint_t>(Answer::Plain) || isAnsweredByNginx(outcome.status) ||
        hasErrorPage(request, outcome.status)) {
        return static_cast<ngx_int_t>(outcome.status);
    }
    const Problem& problem = outcome.isUndecided ? kReducedCapacity : kQuotaExceeded;
    return isGrpc(request) ? sendGrpcStatus(request, problem, round, outcome)
                           : sendProblem(request, problem, round, outcome);
}

}  // namespace sliding_log
