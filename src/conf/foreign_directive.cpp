#include "conf/foreign_directive.hpp"

namespace sliding_log {

ForeignDirective findDirective(const ngx_cycle_t* cycle, std::string_view name) {
    for (ngx_module_t** module = cycle->modules; *module != nullptr; module++) {
        ngx_command_t* each = (*module)->type == NGX_HTTP_MODULE ? (*module)->commands : nullptr;
        for (; each != nullptr && each->name.len > 0; each++) {
            if (view(each->name) == name) {
                return {*module, each};
            }
        }
    }
    return {};
}

}  // namespace sliding_log
