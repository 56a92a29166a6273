// The map of the module: its directives, variables, phases and processes, all of which are implemented in other files.

#include <algorithm>
#include <exception>
#include <new>
#include <span>

#include "conf/directives.hpp"
#include "conf/finalize.hpp"
#include "conf/limit_directive.hpp"
#include "conf/merge.hpp"
#include "conf/redis_block.hpp"
#include "conf/values.hpp"
#include "conf/warnings.hpp"
#include "conf/worker_access.hpp"
#include "dashboard/dashboard_page.hpp"
#include "metrics/own_file.hpp"
#include "ngx.hpp"
#include "pages/metrics_page.hpp"
#include "request/access.hpp"
#include "request/fields.hpp"
#include "request/limit_variables.hpp"
#include "request/log_phase.hpp"
#include "request/redirected.hpp"
#include "request/variables.hpp"
#include "settings/settings.hpp"
#include "this_process.hpp"
#include "version.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

ngx_conf_enum_t gFields[] = {
    {ngx_string("off"), static_cast<ngx_uint_t>(Fields::Off)},
    {ngx_string("ietf"), static_cast<ngx_uint_t>(Fields::Ietf)},
    {ngx_string("legacy"), static_cast<ngx_uint_t>(Fields::Legacy)},
    {ngx_string("all"), static_cast<ngx_uint_t>(Fields::All)},
    {ngx_null_string, 0},
};

ngx_conf_enum_t gAnswers[] = {
    {ngx_string("plain"), static_cast<ngx_uint_t>(Answer::Plain)},
    {ngx_string("problem"), static_cast<ngx_uint_t>(Answer::Problem)},
    {ngx_null_string, 0},
};

ngx_conf_enum_t gLogLevels[] = {
    {ngx_string("info"), NGX_LOG_INFO},
    {ngx_string("notice"), NGX_LOG_NOTICE},
    {ngx_string("warn"), NGX_LOG_WARN},
    {ngx_string("error"), NGX_LOG_ERR},
    {ngx_null_string, 0},
};

constexpr ngx_uint_t kAnyLevel = NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF;

ngx_command_t gCommands[] = {
    {ngx_string("sliding_log_limit"), kAnyLevel | NGX_CONF_1MORE, setLimit, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("sliding_log_redis"), NGX_HTTP_MAIN_CONF | NGX_CONF_BLOCK | NGX_CONF_NOARGS | NGX_CONF_TAKE1,
     setRedisBlock, NGX_HTTP_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("sliding_log_status"), kAnyLevel | NGX_CONF_TAKE1, setStatus, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("sliding_log_on_error"), kAnyLevel | NGX_CONF_TAKE12, setOnError, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("sliding_log_zone"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE1, setZone, NGX_HTTP_MAIN_CONF_OFFSET, 0,
     nullptr},
    {ngx_string("sliding_log_dry_run"), kAnyLevel | NGX_CONF_TAKE1, setChoice, NGX_HTTP_LOC_CONF_OFFSET,
     offsetof(LocationSettings, dryRun), gSwitch},
    {ngx_string("sliding_log_headers"), kAnyLevel | NGX_CONF_TAKE1, setChoice, NGX_HTTP_LOC_CONF_OFFSET,
     offsetof(LocationSettings, fields), gFields},
    {ngx_string("sliding_log_answer"), kAnyLevel | NGX_CONF_TAKE1, setChoice, NGX_HTTP_LOC_CONF_OFFSET,
     offsetof(LocationSettings, answer), gAnswers},
    {ngx_string("sliding_log_log_level"), kAnyLevel | NGX_CONF_TAKE1, setChoice, NGX_HTTP_LOC_CONF_OFFSET,
     offsetof(LocationSettings, logLevel), gLogLevels},
    {ngx_string("sliding_log_metrics"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, setMetrics, NGX_HTTP_LOC_CONF_OFFSET, 0,
     nullptr},
    {ngx_string("sliding_log_dashboard"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, setDashboard, NGX_HTTP_LOC_CONF_OFFSET,
     0, nullptr},
    ngx_null_command,
};

bool settles(const MainSettings& main) {
    return std::ranges::any_of(std::span(static_cast<LogSettings**>(main.logs.elts), main.logs.nelts),
                               [](const LogSettings* log) { return log->settles != 0; });
}

/// False if memory is short.
bool installRewriteHandlers(ngx_http_core_main_conf_t& core) {
    for (const ngx_http_phases phase : {NGX_HTTP_SERVER_REWRITE_PHASE, NGX_HTTP_REWRITE_PHASE}) {
        auto* handler = static_cast<ngx_http_handler_pt*>(ngx_array_push(&core.phases[phase].handlers));
        if (handler == nullptr) {
            return false;
        }
        *handler = onRewrite;
    }
    return true;
}

/// Access handlers run in reverse order of registration, so ours runs before allow, deny and auth_basic: it protects
/// them, and `satisfy any` cannot skip a limit.
ngx_int_t installHandlers(ngx_conf_t* cf) {
    auto* core = static_cast<ngx_http_core_main_conf_t*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    auto* access = static_cast<ngx_http_handler_pt*>(ngx_array_push(&core->phases[NGX_HTTP_ACCESS_PHASE].handlers));
    auto* log = static_cast<ngx_http_handler_pt*>(ngx_array_push(&core->phases[NGX_HTTP_LOG_PHASE].handlers));
    if (access == nullptr || log == nullptr) {
        return NGX_ERROR;
    }
    *access = onAccess;
    *log = onLog;
    installFieldsFilter();
    const auto* main =
        static_cast<const MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_sliding_log_module));
    if (settles(*main) && !installRewriteHandlers(*core)) {
        return NGX_ERROR;
    }
    if (checkLimitVariables(cf, *main) != NGX_OK) {
        return NGX_ERROR;
    }
    finalizeReservations(*main);
    prepareChecks(*main);
    if (main->limits.nelts > 0) {
        warnOfLoadOrder(cf);
    }
    return NGX_OK;
}

/// The master logs which module it has loaded. After an upgrade of the file the old one runs until nginx is restarted.
ngx_int_t beginCycle(ngx_cycle_t* cycle) noexcept try {
    rememberOwnFile();
    if (ngx_test_config == 0) {
        ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0, "sliding_log module %*s", kVersion.size(), kVersion.data());
    }
    const auto* main =
        static_cast<const MainSettings*>(ngx_http_cycle_get_module_main_conf(cycle, ngx_http_sliding_log_module));
    return main == nullptr || warnOfUnreadablePasswords(cycle, *main) ? NGX_OK : NGX_ERROR;
} catch (const std::bad_alloc&) {
    return NGX_ERROR;
}

ngx_int_t startWorker(ngx_cycle_t* cycle) noexcept try {
    const auto* main =
        static_cast<const MainSettings*>(ngx_http_cycle_get_module_main_conf(cycle, ngx_http_sliding_log_module));
    if (isHelper() || main == nullptr || main->zone == nullptr) {
        return NGX_OK;  // a cache manager, no http block, or no limit in it
    }
    delete replaceWorker(new Worker(*main, cycle->log));
    return NGX_OK;
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_EMERG, cycle->log, 0, "sliding_log: %s", e.what());
    return NGX_ERROR;
}

void stopWorker(ngx_cycle_t*) {
    delete replaceWorker(nullptr);
}

ngx_http_module_t gContext = {
    addVariables,            // preconfiguration
    installHandlers,         // postconfiguration
    createMainSettings,      // create main configuration
    finalizeLimits,          // init main configuration
    nullptr,                 // create server configuration
    nullptr,                 // merge server configuration
    createLocationSettings,  // create location configuration
    mergeLocationSettings,   // merge location configuration
};

}  // namespace

}  // namespace sliding_log

ngx_module_t ngx_http_sliding_log_module = {
    NGX_MODULE_V1,
    &sliding_log::gContext,
    sliding_log::gCommands,
    NGX_HTTP_MODULE,
    nullptr,                   // init master
    sliding_log::beginCycle,   // init module
    sliding_log::startWorker,  // init process
    nullptr,                   // init thread
    nullptr,                   // exit thread
    sliding_log::stopWorker,   // exit process
    nullptr,                   // exit master
    NGX_MODULE_V1_PADDING,
};
