// A call of the native module: what the functions of its API work with.
#pragma once

#include <vector>

#include "commands.hpp"
#include "native/redis_module.hpp"

namespace simulate {
class NativeModule;
class ModuleCall;
}  // namespace simulate

/// The module reads the function at the beginning, by which it finds all others.
struct RedisModuleCtx {
    int (*find)(const char*, void*);
    simulate::ModuleCall* call;
};

namespace simulate {

class ModuleCall {
  public:
    ModuleCall(Execution& execution, NativeModule& module);
    ~ModuleCall();
    ModuleCall(const ModuleCall&) = delete;
    ModuleCall& operator=(const ModuleCall&) = delete;

    RedisModuleCtx* context() { return &context_; }
    Execution& execution() { return execution_; }
    NativeModule& module() { return module_; }

    void run(RedisModuleFunction function, Words words);

  private:
    RedisModuleCtx context_;
    Execution& execution_;
    NativeModule& module_;
    ModuleCall* outer_;
};

}  // namespace simulate
