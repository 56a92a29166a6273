// algorithm=quota: the log of lua/calendar_quota.lua, a HASH. The head of that file describes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hash_fields.hpp"
#include "limit/calendar.hpp"
#include "limit/number.hpp"
#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

class QuotaLog {
  public:
    struct Log : native::Log {
        Period period = {0, 0};
        std::string field;  // of the HASH, for admitted requests; empty: none yet
        double moved = 0;   // the count of a period further ahead, which becomes one of the present period
        std::vector<std::string> leaving;
    };

    static constexpr double kMostEntries = kLargestCount;  // no limit: it keeps no entries

    QuotaLog(Redis& redis, const Clock& clock, const Arguments&) : redis_(redis), clock_(clock) {}

    Found read(Log& log);
    std::string add(Log& log, const Requests& requests, const double* at, bool denied);
    double roomAt(const Log& log, double) const { return log.frees; }
    double newest(const Log&) const { return clock_.now; }
    void block(Log&, double, double) { unreadable(); }  // it is never blocked
    void unblock(Log&) {}
    bool takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked);
    bool owe(Log& log, double more, double logged, double taken, std::optional<double> ended);
    double latest(const Log& log);

  private:
    double expiry(const Log& log) const;

    Redis& redis_;
    const Clock& clock_;
};

}  // namespace sliding_log::native
