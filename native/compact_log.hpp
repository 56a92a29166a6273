// algorithm=compact: the log that lua/compact_log.lua keeps, a STRING. Its head tells the form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compact_state.hpp"
#include "limit/number.hpp"
#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

class CompactLog {
  public:
    struct Log : native::Log {
        bool has = false;  // newest is known
        bool hasRuns = false;
        double oldest = 0;
        double newest = 0;
        double touched = 0;
        double size = 0;
        double begin = 0;
        double filled = 0;
        double length = 0;  // of the whole value, in bytes
        std::string next;
        std::string latest;
    };

    static constexpr double kMostEntries = kLargestCount;

    CompactLog(Redis& redis, const Clock& clock, const Arguments&) : redis_(redis), clock_(clock) {}

    Found read(Log& log);
    std::string add(Log& log, const Requests& requests, const double* at, bool denied);
    double roomAt(Log& log, double missing);
    double newest(const Log& log) const { return log.used > 0 ? log.newest : clock_.now; }
    bool permit(Log& log, std::string_view name, double permits, double at);
    void block(Log& log, double length, double until);
    void unblock(Log& log);
    bool takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked);
    bool owe(Log& log, double more, double logged, double taken, std::optional<double> ended);
    double latest(const Log& log);

  private:
    struct Walk;
    struct Split;

    Found readFront(Log& log);
    Found readBlocked(Log& log, std::string_view bytes);
    bool dropStale(Log& log, double horizon);
    std::string ofRing(const Log& log, double skipped, double length);
    Walk walk(Log& log, bool forward, double most, double time);
    void flatten(Log& log);
    void pull(Log& log, double bytes);
    void refill(Log& log);
    std::string spill(Log& log, bool& isWritten);
    Split split(Log& log, double time, double more);
    void insert(Log& log, double time, double more);
    double farthest(const Log& log) const;
    void stepBack(Log& log, double farthest);
    bool takeOut(Log& log, double logged, bool hasStepped, double most);
    void write(Log& log);
    void drop(Log& log, double most, double time);
    void shortenRun(Log& log, double entries);
    std::string writeBlocked(Log& log);
    double arrival(Log& log, double skipped);
    std::string set(const Log& log, std::string_view bytes, double ttl);

    Redis& redis_;
    const Clock& clock_;
};

}  // namespace sliding_log::native
