// What one store says in the error log: troubles once a second at most, whichever of its servers has them.
#pragma once

#include <string_view>

#include "ngx.hpp"
#include "store/log_throttle.hpp"

namespace sliding_log {

class StoreLog {
  public:
    StoreLog(const ngx_str_t& name, ngx_log_t* log) : name_(name), log_(log) {}

    /// `sliding_log_redis "<name>" (<server>): <what>[: <cause>]`
    void trouble(ngx_uint_t level, std::string_view server, const char* what, std::string_view cause) {
        if (troubles_.allows()) {
            const ngx_str_t texts[] = {toNgx(server), toNgx(cause)};
            ngx_log_error(level, log_, 0, "sliding_log_redis \"%V\" (%V): %s%s%V", &name_, &texts[0], what,
                          cause.empty() ? "" : ": ", &texts[1]);
        }
    }

    /// Tells of a trouble's end.
    void recovery(std::string_view server) {
        if (recoveries_.allows()) {
            const ngx_str_t text = toNgx(server);
            ngx_log_error(NGX_LOG_NOTICE, log_, 0, "sliding_log_redis \"%V\" (%V): connected again", &name_, &text);
        }
    }

    /// One worker says it for all of them.
    void evictionUnsafe(std::string_view server, std::string_view policy) const {
        if (ngx_worker == 0) {
            const ngx_str_t texts[] = {toNgx(server), toNgx(policy)};
            ngx_log_error(NGX_LOG_WARN, log_, 0,
                          "sliding_log_redis \"%V\" (%V): maxmemory-policy \"%V\" can evict live logs, which forgets "
                          "requests; use noeviction or volatile-ttl",
                          &name_, &texts[0], &texts[1]);
        }
    }

    ngx_log_t* nginxLog() const { return log_; }

  private:
    const ngx_str_t& name_;
    ngx_log_t* log_;
    LogThrottle troubles_;
    LogThrottle recoveries_;
};

}  // namespace sliding_log
