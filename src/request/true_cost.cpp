#include "request/true_cost.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "limit/most_cost.hpp"
#include "limit/number.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

std::size_t upstreamsOf(const ngx_http_request_t* request) {
    return request->upstream_states == nullptr ? 0 : request->upstream_states->nelts;
}

void tellInvalid(const ngx_http_request_t* request, const LogSettings& log, ngx_str_t text, const char* what) {
    if (worker().counters(log).mayTellOfInvalid(nowMs())) {
        const std::int64_t most = mostCost(log.algorithm, log.sample);
        ngx_log_error(NGX_LOG_ERR, request->connection->log, 0,
                      "limit \"%V\": invalid \"settle\" value \"%V\", expected a whole number from 0 to %L, %s",
                      &log.name, &text, most, what);
    }
}

/// True if the text has digits only.
bool isWhole(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Check::kNotSettled if the text is no number.
std::int64_t costIn(const ngx_http_request_t* request, const LogSettings& log, ngx_str_t text) {
    if (text.len == 0) {
        return Check::kNotSettled;
    }
    const std::int64_t most = mostCost(log.algorithm, log.sample);
    const std::optional<std::int64_t> number = parseCount(view(text));
    if (!number && !isWhole(view(text))) {
        tellInvalid(request, log, text, "the cost stands");
        return Check::kNotSettled;
    }
    if (!number || *number > most) {
        tellInvalid(request, log, text, "the largest is taken");
        return most;
    }
    return *number;
}

/// Evaluates settle= as if the request had had this upstream. An isolated evaluation leaves no trace in the request: a
/// `map` would keep its value.
class Evaluation {
  public:
    Evaluation(ngx_http_request_t* request, const LimitSettings& settings, bool isIsolated)
        : request_(request), settings_(settings) {
        if (!isIsolated) {
            return;
        }
        const auto* core =
            static_cast<const ngx_http_core_main_conf_t*>(ngx_http_get_module_main_conf(request, ngx_http_core_module));
        variables_ = {request->variables, core->variables.nelts};
        if (auto* copies = poolNew<ngx_http_variable_value_t>(request->pool, variables_.size())) {
            std::ranges::copy(variables_, copies);
            copies_ = copies;
        }
    }

    /// Empty without memory.
    ngx_str_t with(ngx_http_upstream_t* upstream) const {
        if (copies_ == nullptr && !variables_.empty()) {
            return {};
        }
        ngx_http_upstream_t* latest = request_->upstream;
        request_->upstream = upstream;
        ngx_str_t text{};
        if (ngx_http_complex_value(request_, settings_.settle, &text) != NGX_OK) {
            text = {};
        }
        request_->upstream = latest;
        std::ranges::copy(std::span(copies_, variables_.size()), variables_.begin());
        return text;
    }

  private:
    ngx_http_request_t* request_;
    const LimitSettings& settings_;
    std::span<ngx_http_variable_value_t> variables_;  // if it is isolated
    const ngx_http_variable_value_t* copies_ = nullptr;
};

}  // namespace

void noteReplacedUpstream(Context& context) {
    ngx_http_request_t* request = context.request;
    const ReplacedUpstream* latest = context.replaced;
    if (!context.settles || request->upstream == nullptr ||
        (latest != nullptr && latest->upstream == request->upstream)) {
        return;
    }
    if (auto* replaced = poolNew<ReplacedUpstream>(request->pool)) {
        *replaced = {latest, request->upstream, upstreamsOf(request)};
        context.replaced = replaced;
    }
}

std::int64_t trueCost(const Context& context, const Round& round, const LimitSettings& settings) {
    ngx_http_request_t* request = context.request;
    const LogSettings& log = *settings.log;
    const Evaluation evaluation(request, settings, context.replaced != nullptr || request->post_action != 0);
    const std::int64_t most = mostCost(log.algorithm, log.sample);
    std::int64_t cost = costIn(request, log, evaluation.with(request->upstream));
    std::optional<ngx_str_t> without;  // the value if no upstream had answered
    for (const ReplacedUpstream* each = context.replaced; each != nullptr; each = each->previous) {
        if (each->upstream == request->upstream || each->upstreams <= round.upstreamsBefore) {
            continue;
        }
        if (!without) {
            without = evaluation.with(nullptr);
        }
        const ngx_str_t text = evaluation.with(each->upstream);
        if (view(text) == view(*without)) {
            continue;  // it does not depend on this answer
        }
        const std::int64_t earlier = costIn(request, log, text);
        if (earlier != Check::kNotSettled) {
            cost = std::min(most, std::max<std::int64_t>(cost, 0) + earlier);
        }
    }
    return cost;
}

}  // namespace sliding_log
