// Error log messages of one store: each cause of each server at most once a second. Bad news and their end have the
// level `error`, which Debian's nginx.conf sets.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "log_throttle.hpp"
#include "ngx.hpp"
#include "settings/settings.hpp"
#include "this_process.hpp"

namespace sliding_log {

/// The name of the store in messages that are not about one of its servers.
inline std::string_view nameOf(const RedisSettings& settings) {
    return view(settings.mode == static_cast<ngx_uint_t>(Mode::Sentinel)
                    ? settings.master
                    : static_cast<const ServerSettings*>(settings.servers.elts)->text);
}

/// As messages call a server that was named so, where they do not know its address.
inline std::string shownNameOf(const RedisSettings& settings, std::string_view name) {
    const bool isMaster = settings.mode == static_cast<ngx_uint_t>(Mode::Sentinel);
    return std::string(isMaster ? "master of \"" : "").append(name).append(isMaster ? "\"" : "");
}

inline std::string shownNameOf(const RedisSettings& settings) {
    return shownNameOf(settings, nameOf(settings));
}

class StoreLog {
  public:
    StoreLog(const RedisSettings& settings, ngx_log_t* log)
        : name_(settings.name), log_(log), instead_(insteadIn(settings)) {}

    /// `sliding_log_redis "<name>" (<server>): <what>[: <cause>]`
    void trouble(ngx_uint_t level, std::string_view server, const char* what, std::string_view cause) {
        tell(level, server, what, cause, "");
    }

    /// The same of what keeps the store from deciding; then `; on_error <which> decides`.
    void failure(std::string_view server, const char* what, std::string_view cause) {
        tell(NGX_LOG_ERR, server, what, cause, instead_);
    }

    /// Logs the end of a trouble.
    void recovery(std::string_view server) { trouble(NGX_LOG_ERR, server, "connected again", ""); }

    /// Logged by one worker for all.
    void evictionUnsafe(std::string_view server, std::string_view policy) const {
        if (workerNumber() == 0) {
            const ngx_str_t texts[] = {toNgx(server), toNgx(policy)};
            ngx_log_error(NGX_LOG_ERR, log_, 0,
                          "sliding_log_redis \"%V\" (%V): maxmemory-policy \"%V\" can evict live logs, which forgets "
                          "requests; use noeviction or volatile-ttl",
                          &name_, &texts[0], &texts[1]);
        }
    }

    /// The same, only once.
    void roleForbidden(std::string_view server, std::string_view answer) {
        if (workerNumber() == 0 && !std::exchange(roleTold_, true)) {
            const ngx_str_t texts[] = {toNgx(server), toNgx(answer)};
            ngx_log_error(
                NGX_LOG_ERR, log_, 0,
                "sliding_log_redis \"%V\" (%V): ROLE answered: %V; a replica is recognized by its refusals only",
                &name_, &texts[0], &texts[1]);
        }
    }

    /// The same, only once.
    void nativeForbidden(std::string_view server, std::string_view answer) {
        if (workerNumber() == 0 && !std::exchange(nativeTold_, true)) {
            const ngx_str_t texts[] = {toNgx(server), toNgx(answer)};
            ngx_log_error(NGX_LOG_ERR, log_, 0,
                          "sliding_log_redis \"%V\" (%V): the native module answered: %V; scripts are used", &name_,
                          &texts[0], &texts[1]);
        }
    }

    /// At most once a minute: it lasts until a clock is corrected.
    void clockIsBehind(std::string_view server, std::int64_t ms, std::string_view limit) {
        if (!isSkewTold_ || nowMs() - skewToldAt_ >= kTellSkewEveryMs) {
            isSkewTold_ = true;
            skewToldAt_ = nowMs();
            const ngx_str_t texts[] = {toNgx(server), toNgx(limit)};
            ngx_log_error(
                NGX_LOG_ERR, log_, 0,
                "sliding_log_redis \"%V\" (%V): clock nginx: the clock of this node is %L.%03Ls behind that of "
                "another node, by limit \"%V\"",
                &name_, &texts[0], ms / 1000, ms % 1000, &texts[1]);
        }
    }

    ngx_log_t* nginxLog() const { return log_; }

  private:
    static constexpr ngx_msec_t kTellSkewEveryMs = 60'000;

    /// Locations that use one store may differ.
    static std::string insteadIn(const RedisSettings& settings) {
        constexpr std::string_view names[] = {"allow", "deny", "local"};  // by OnError
        std::string all;
        for (std::size_t i = 0; i < std::size(names); i++) {
            const ngx_uint_t andLater = settings.onErrors >> i;
            if ((andLater & 1) != 0) {
                all.append(all.empty() ? "; on_error " : andLater == 1 ? " or " : ", ").append(names[i]);
            }
        }
        return all.append(all.empty() ? "" : " decides");
    }

    void tell(ngx_uint_t level, std::string_view server, const char* what, std::string_view cause,
              std::string_view instead) {
        if (throttle_.allows(identityOf(server, what, cause))) {
            const ngx_str_t texts[] = {toNgx(server), toNgx(cause), toNgx(instead)};
            ngx_log_error(level, log_, 0, "sliding_log_redis \"%V\" (%V): %s%s%V%V", &name_, &texts[0], what,
                          cause.empty() ? "" : ": ", &texts[1], &texts[2]);
        }
    }

    /// Equal for messages of one cause: its first word, without the command that the server was sent. The rest may
    /// differ.
    static std::size_t identityOf(std::string_view server, const char* what, std::string_view cause) {
        constexpr std::string_view answered = "answered: ";
        if (const std::size_t at = cause.find(answered); at != std::string_view::npos) {
            cause.remove_prefix(at + answered.size());
        }
        std::size_t identity = 0;
        for (const std::string_view part : {server, std::string_view(what), cause.substr(0, cause.find(' '))}) {
            identity = identity * 31 + std::hash<std::string_view>()(part);
        }
        return identity;
    }

    const ngx_str_t& name_;
    ngx_log_t* log_;
    std::string instead_;
    LogThrottle throttle_;
    bool roleTold_ = false;
    bool nativeTold_ = false;
    bool isSkewTold_ = false;
    ngx_msec_t skewToldAt_ = 0;
};

}  // namespace sliding_log
