// algorithm=counter: the log of lua/sliding_counter.lua, a HASH. The head of that file describes it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hash_fields.hpp"
#include "limit/number.hpp"
#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

class CounterLog {
  public:
    struct Log : native::Log {
        double here = 0;
        double before = 0;
        double start = 0;
        std::string field;               // of the HASH, for requests admitted now; empty: none yet
        std::map<double, double> later;  // counts of later windows by their start
        bool hasReserved = false;
        double reserved = 0;
        std::string reservedSince;
        std::vector<std::string> leaving;
    };

    static constexpr double kMostEntries = kLargestCount;  // no limit: it keeps no entries

    CounterLog(Redis& redis, const Clock& clock, const Arguments&) : redis_(redis), clock_(clock) {}

    Found read(Log& log);
    std::string add(Log& log, const Requests& requests, const double* at, bool denied);
    double roomAt(const Log& log, double missing) const;
    double newest(const Log& log) const { return log.hasReserved ? log.reserved : 0; }
    void block(Log& log, double length, double until) { keepBlock(redis_, log, length, until); }
    void unblock(Log& log) { endBlock(redis_, log); }
    bool takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked);
    bool owe(Log& log, double more, double logged, double taken, std::optional<double> ended);
    double latest(const Log& log);

  private:
    bool readField(Log& log, std::string_view name, double value, std::string_view text);
    void countLater(Log& log, std::string_view field, double begin, double count, double farthest);
    void tell(Log& log) const;
    double fallsTo(const Log& log, double most) const;
    void remove(Log& log);
    void reserve(Log& log, double at);

    Redis& redis_;
    const Clock& clock_;
};

}  // namespace sliding_log::native
