// What one worker process owns from its start to its end.
#pragma once

#include <memory>
#include <vector>

#include "conf/settings.hpp"
#include "limit/unique_id.hpp"
#include "store/local_store.hpp"
#include "store/redis_store.hpp"

namespace sliding_log {

class Worker {
  public:
    /// Opens the stores that a limit uses; the configuration has a zone. Throws std::bad_alloc, and std::runtime_error
    /// without randomness.
    Worker(const MainSettings& settings, ngx_log_t* log);

    RedisStore& store(const RedisSettings& settings) { return *stores_[settings.index]; }
    LocalStore& local() { return local_; }
    UniqueIds& uniqueIds() { return uniqueIds_; }

  private:
    UniqueIds uniqueIds_;
    LocalStore local_;
    std::vector<std::unique_ptr<RedisStore>> stores_;  // by RedisSettings::index; nullptr where unused
};

/// This process's worker; nullptr where none runs (no limit, or a helper process).
extern std::unique_ptr<Worker> gWorker;

}  // namespace sliding_log
