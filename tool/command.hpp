// What a command of the tool is given, and the table of all commands.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "arguments.hpp"
#include "failure.hpp"
#include "nginx_settings.hpp"
#include "secrets.hpp"
#include "store.hpp"

namespace sliding_log::tool {

struct Context {
    const StoreSettings& settings;
    const Arguments& arguments;
    std::string prefix;
    bool json;
    Secrets secrets;
    const NginxSettings* nginx;  // its configuration, by --nginx-conf; nullptr: none
    const NginxStore* store;     // the block of it that is asked; nullptr: none

    /// What nginx's configuration has of that NAME, or of a key that has this prefix; nullptr: nothing.
    const NginxLimit* limitOf(std::string_view nameOrKey) const;

    /// As a person may see it.
    std::string shown(std::string_view key) const { return secrets.shown(key, prefix); }
};

struct ToolCommand {
    std::string_view name;
    std::string_view operands;
    std::string_view help;
    std::span<const Option> options;  // of its own
    Status (*run)(const Context& context);
    bool asksRedis = true;  // else no password and no certificate is read
};

extern const ToolCommand kSize;
extern const ToolCommand kDoctor;
extern const ToolCommand kInspect;
extern const ToolCommand kTop;
extern const ToolCommand kReset;
extern const ToolCommand kExport;
extern const ToolCommand kAcl;

/// Writes to standard output; throws CouldNotWrite when that fails, as on a full disk or a closed pipe.
void print(std::string_view text);

}  // namespace sliding_log::tool
