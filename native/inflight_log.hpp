// algorithm=inflight: the log of lua/inflight.lua, a ZSET, and its renewals, as in lua/renewal.lua.
#pragma once

#include "zset_log.hpp"

namespace sliding_log::native {

class InflightLog : public ZsetLog {
  public:
    using ZsetLog::ZsetLog;

    /// An entry is found by its name alone, since a renewal changes its time.
    bool takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked);
};

/// Executes a renewal and replies to it.
void renew(Redis& redis, const Clock& clock, const Arguments& arguments);

}  // namespace sliding_log::native
