// Directives of other http modules, found by their names: this module is not linked with them, and older versions of
// nginx lack some.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "ngx.hpp"

namespace sliding_log {

struct ForeignDirective {
    ngx_module_t* module = nullptr;  // nullptr: this nginx has no such directive
    ngx_command_t* command = nullptr;

    const ngx_http_module_t& context() const { return *static_cast<const ngx_http_module_t*>(module->ctx); }
};

ForeignDirective findDirective(const ngx_cycle_t* cycle, std::string_view name);

/// Has what a directive makes when it is read on a trial.
using TrialPool = std::unique_ptr<ngx_pool_t, decltype(&ngx_destroy_pool)>;

/// nullptr without memory.
inline TrialPool newTrialPool(const ngx_conf_t& cf) {
    constexpr std::size_t kSize = 16384;
    return {ngx_create_pool(kSize, cf.log), ngx_destroy_pool};
}

}  // namespace sliding_log
