// The arguments of a command of the tool, and the table of all commands.
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
    const NginxSettings* nginx;  // nginx's configuration, given by --nginx-conf; nullptr: none
    const NginxStore* store;     // its block whose Redis is asked; nullptr: none
    bool isOneOfSeveral;         // the command asks other blocks, too

    /// The settings of the NAME in nginx's configuration, or of the NAME of a key with this prefix; nullptr: none.
    const NginxLimit* limitOf(std::string_view nameOrKey) const;

    /// The key as it may be shown.
    std::string shown(std::string_view key) const { return secrets.shown(key, prefix); }
};

struct ToolCommand {
    std::string_view name;
    std::string_view operands;
    std::string_view help;
    std::span<const Option> options;  // of this command only
    Status (*run)(const Context& context);
    bool asksRedis = true;  // false: no password and no certificate is read

    /// Whether it concerns each store that a limit may be in, with these arguments; nullptr: never.
    bool (*isOfAllHomes)(const Arguments& arguments) = nullptr;
};

extern const ToolCommand kSize;
extern const ToolCommand kDoctor;
extern const ToolCommand kInspect;
extern const ToolCommand kTop;
extern const ToolCommand kReset;
extern const ToolCommand kExport;
extern const ToolCommand kAcl;
extern const ToolCommand kBlocked;
extern const ToolCommand kUnblock;
extern const ToolCommand kSet;
extern const ToolCommand kUnset;
extern const ToolCommand kOverrides;

/// Writes to standard output; throws CouldNotWrite if that fails, as on a full disk or a closed pipe.
void print(std::string_view text);

}  // namespace sliding_log::tool
