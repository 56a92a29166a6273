#include "redis_module.hpp"

namespace sliding_log::api {

bool load(RedisModuleCtx* context) {
    using Lookup = int (*)(const char*, void*);
    // the function that looks up all others is at the beginning of the context
    const auto lookup = *reinterpret_cast<Lookup*>(context);
    bool hasAll = true;
#define SLIDING_LOG_LOOK_UP(name, ...) \
    hasAll = lookup("RedisModule_" #name, reinterpret_cast<void*>(&(name))) == kOk && hasAll;
    SLIDING_LOG_API(SLIDING_LOG_LOOK_UP)
#undef SLIDING_LOG_LOOK_UP
    lookup("RedisModule_SetCommandACLCategories", reinterpret_cast<void*>(&SetCommandACLCategories));
    return hasAll;
}

}  // namespace sliding_log::api
