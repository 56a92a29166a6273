// algorithm=log and sampled: the log of lua/sliding_log.lua and lua/sampled_log.lua, a ZSET.
#pragma once

#include <string>
#include <vector>

#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

class ZsetLog {
  public:
    struct Log : native::Log {
        double first = 0;    // number of members before the oldest entry of the window
        double leaving = 0;  // number of these to remove when something is added
    };

    static constexpr double kMostEntries = 1000;

    /// The maximum number of entries that are removed, or moved, in a call.
    static constexpr double kAtOnce = 1000;

    ZsetLog(Redis& redis, const Clock& clock, const Arguments& arguments)
        : redis_(redis),
          clock_(clock),
          arguments_(arguments),
          isSampled_(takes(arguments.algorithm(), Parameter::Sample)) {}

    Found read(Log& log);
    std::string add(Log& log, const Requests& requests, const double* at, bool denied);
    double roomAt(const Log& log, double missing);
    double newest(const Log& log) { return scoreOrNow(log, -1); }
    bool permit(Log& log, std::string_view name, double permits, double at);
    void block(Log& log, double length, double until);
    void unblock(Log& log);
    bool takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked);
    double fits(const Log& log, const Requests& requests, double room) const;
    double latest(const Log& log);

    /// Removes the entries up to the horizon and returns their number. The key is closed if there are many.
    static double removeUpTo(Redis& redis, Key& key, RedisModuleString* name, double horizon);

  protected:
    const Arguments& arguments() const { return arguments_; }

    /// Removes these members, and the other entries of the request, in one command. True if there was one.
    bool remove(const Log& log, std::vector<std::string> leaving, const std::string& name, double entries);

  private:
    double entriesOf(const Log& log, std::size_t name) const;
    bool scoreAt(const Log& log, double rank, double& score);
    double scoreOrNow(const Log& log, double rank);
    double rankOfOldest(const Log& log, double known, double count);
    void prune(Log& log, const std::string& member, double& score, bool& has, double& count, double stale);
    void removeStale(Log& log);
    double farthest(const Log& log) const;
    void stepBack(const Log& log, double farthest);
    std::string addEntries(const Log& log, const Requests& requests, double score, double longest, double& added);
    std::string addOthers(const Log& log, double score, const std::string& name, double entries);
    void cut(Log& log, double longest);
    bool scoreOf(const Log& log, const std::string& member, double& score);
    bool firstOf(const Log& log, const std::string& name, const std::string& id, double logged, double taken,
                 std::string& member);

    Redis& redis_;
    const Clock& clock_;
    const Arguments& arguments_;
    bool isSampled_;
};

}  // namespace sliding_log::native
