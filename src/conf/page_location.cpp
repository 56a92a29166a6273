#include "conf/page_location.hpp"

#include "conf/refuse.hpp"
#include "conf/rewrite_return.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kExpectedLocation = "one that no other directive answers";

}  // namespace

char* setPage(ngx_conf_t* cf, const ngx_command_t& cmd, void* conf, ngx_http_handler_pt handler) {
    auto& location = *static_cast<LocationSettings*>(conf);
    auto* core = static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (location.page == handler) {
        return refuseDuplicate(cf, view(cmd.name));
    }
    if (core->handler != nullptr) {
        return refuse(cf, view(cmd.name), "location", view(core->name), kExpectedLocation);
    }
    location.page = core->handler = handler;
    location.pageDirective = cmd.name;
    location.pagePosition = positionOf(cf);
    return kConfOk;
}

char* inheritPage(ngx_conf_t* cf, const LocationSettings& from, LocationSettings& to) {
    auto* core = static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (core->noname != 0 && core->handler == nullptr && from.page != nullptr) {
        to.page = core->handler = from.page;
        to.limits = from.limits;
        return kConfOk;
    }
    if (to.page == nullptr || (core->handler == to.page && !returnsFirst(cf))) {
        return kConfOk;
    }
    return refuseAt(cf, to.pagePosition, view(to.pageDirective), "location", view(core->name), kExpectedLocation);
}

}  // namespace sliding_log
