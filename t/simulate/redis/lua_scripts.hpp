// The scripts themselves, in a Lua 5.1 over the keyspace: what a Redis offers to them, as far as they use it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "commands.hpp"

namespace simulate {

class LuaScripts {
  public:
    LuaScripts();
    ~LuaScripts();
    LuaScripts(const LuaScripts&) = delete;
    LuaScripts& operator=(const LuaScripts&) = delete;

    /// An error of the compiler; empty: there is none. A script is compiled once.
    std::string compile(const std::string& sha, std::string_view source);

    /// Runs a script that was compiled, for EVALSHA and its arguments.
    void run(Execution& execution, const std::string& sha, Words words);

    struct Machine;

  private:
    std::unique_ptr<Machine> machine_;
};

}  // namespace simulate
