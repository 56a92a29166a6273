// What limits use of a Redis, and the rights that they need, as ACL names them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"
#include "forms.hpp"

namespace sliding_log::tool {

inline constexpr Option kAlgorithmsOption{
    "--algorithms", "LIST", "the algorithms in use, separated by commas; those in --nginx-conf, otherwise all"};

struct Use {
    Mode mode = Mode::Standalone;
    int database = 0;
    std::vector<const Form*> forms;
    std::optional<bool> blocks;     // a limit has block=; nullopt: not known
    std::optional<bool> escalates;  // a limit has block= with several times; nullopt: not known
    bool areFormsKnown = false;     // from the options or the configuration; otherwise all are taken
    bool asksTime = true;           // false with `clock nginx`
    bool overrides = false;         // a limit has override=on
};

inline constexpr Option kOverrideOption{"--override", "", "limits have override=on; as in --nginx-conf"};

/// From the options, otherwise from nginx's configuration. Throws UsageError.
Use useOf(const Context& context);

/// True if a limit may have block= with several times.
bool mayEscalate(const Use& use);

/// True with `native required` in nginx's configuration.
bool requiresNative(const Context& context);

struct Right {
    enum class For {
        All,
        Block,
        Comfort
    };  // what fails without it: a decision, one with block=, a warning or a metric

    std::string name;  // `config|get`
    For what = For::All;
    std::string_view beside = {};  // of the key: what it has behind the key of a log
};

/// The pattern, in a rule, of the keys that have this behind those of logs, and are only read.
std::string readOnlyKeys(std::string_view prefix, std::string_view beside);

/// The rights of the module at the Redis.
std::vector<Right> moduleRights(const Use& use);

/// The rights of this tool at the Redis: those of the module that it uses, too, and its own.
std::vector<Right> toolRights(const Use& use);

}  // namespace sliding_log::tool
