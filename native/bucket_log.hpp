// algorithm=bucket: the log of lua/token_bucket.lua, a HASH. The head of that file describes it.
#pragma once

#include <optional>
#include <string>

#include "hash_fields.hpp"
#include "limit/number.hpp"
#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

class BucketLog {
  public:
    struct Log : native::Log {
        double level = 0;  // tokens * window
        bool wasBlocked = false;
        std::string time;  // as it stands there
    };

    static constexpr double kMostEntries = kLargestCount;  // no limit: it keeps no entries

    BucketLog(Redis& redis, const Clock& clock, const Arguments&) : redis_(redis), clock_(clock) {}

    Found read(Log& log);
    std::string add(Log& log, const Requests& requests, const double* at, bool denied);
    double roomAt(const Log& log, double missing) const;
    double newest(const Log&) const { return clock_.now; }
    void block(Log& log, double length, double until) { keepBlock(redis_, log, length, until); }
    void unblock(Log& log) { endBlock(redis_, log); }
    bool takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked);
    bool owe(Log& log, double more, double logged, double taken, std::optional<double> ended);
    double latest(const Log& log);

  private:
    double filledAt(const Log& log, double tokens) const;
    void tell(Log& log) const;

    Redis& redis_;
    const Clock& clock_;
};

}  // namespace sliding_log::native
