#include "request/overriding.hpp"

#include <functional>

#include "limit/calendar.hpp"
#include "limit/key.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

void tellUnread(const ngx_http_request_t* request, const Decision& decision, const char* why) {
    const LogSettings& log = *decision.settings->log;
    if (worker().counters(log).mayTellOfOverride(nowMs())) {
        const ngx_str_t key = toNgx(shownKey(decision));
        ngx_log_error(NGX_LOG_ERR, request->connection->log, 0,
                      "limit \"%V\": key \"%V\": its override %s, and counts as none", &log.name, &key, why);
    }
}

/// For the dashboard. A known denial does not tell when its record ends.
void noteSeen(const Decision& decision, const Override& override) {
    if (decision.source == Source::Redis) {
        const std::size_t prefix = decision.settings->log->redis->prefix.len;
        const std::string_view key = decision.key.substr(prefix);
        const std::string_view shown = shownKey(decision);
        const std::string_view name(key.data(), static_cast<std::size_t>(shown.data() + shown.size() - key.data()));
        worker().overrides().note(name, std::hash<std::string_view>{}(key), override, nowMs());
    }
}

}  // namespace

void applyOverride(const ngx_http_request_t* request, Round& round, std::size_t limit) {
    Decision& decision = round.decisions[limit];
    Check& check = round.checks[limit];
    Verdict& verdict = round.verdicts[limit];
    const Override& override = verdict.override;
    noteSeen(decision, override);
    switch (override.what) {
        case Override::What::None:
            break;
        case Override::What::Limit:
            if (takes(check.algorithm, Parameter::Burst)) {
                check.burst = check.capacityUnder(override);
            }
            check.limit = decision.limit = override.limit;
            break;
        case Override::What::Allow:
            if (traitsOf(check.algorithm).countsPeriods) {
                const std::int64_t now = wallClockMs();
                verdict.resetMs = periodAt(now, check.windowMs).end - now;
            }
            [[fallthrough]];
        case Override::What::Deny:
            decision.source = Source::Override;
            break;
        case Override::What::Broken:
            tellUnread(request, decision, "is broken");
            break;
        case Override::What::Forbidden:
            tellUnread(request, decision, "may not be read, which requires +get and %R~ of its key");
            break;
    }
}

}  // namespace sliding_log
