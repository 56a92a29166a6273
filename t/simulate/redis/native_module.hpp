// The native module in a simulated server: the library that ships, over the functions of the module API that it uses
// (module_api.cpp). Each server has a copy of the library with variables of its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "commands.hpp"
#include "native/redis_module.hpp"

namespace simulate {

class NativeModule {
  public:
    /// Throws std::runtime_error if the library cannot be loaded.
    explicit NativeModule(const std::string& path);
    ~NativeModule();
    NativeModule(const NativeModule&) = delete;
    NativeModule& operator=(const NativeModule&) = delete;

    /// Loads it into a server.
    void load(Execution& execution);

    /// `words` begin with the command of the module.
    void decide(Execution& execution, Words words);

    void add(std::string_view command, RedisModuleFunction function) { commands_.emplace(command, function); }

  private:
    struct Copy;

    std::string path_;
    std::unique_ptr<Copy> copy_;
    std::map<std::string, RedisModuleFunction, std::less<>> commands_;
};

}  // namespace simulate
