// algorithm=inflight: the log that lua/inflight.lua keeps, a ZSET, and its renewals, as lua/renewal.lua.
#pragma once

#include "zset_log.hpp"

namespace sliding_log::native {

class InflightLog : public ZsetLog {
  public:
    using ZsetLog::ZsetLog;

    /// An entry is found by its name alone, since a renewal changes its time.
    bool takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked);
};

/// Replies to a renewal.
void renew(Redis& redis, const Clock& clock, const Arguments& arguments);

}  // namespace sliding_log::native
