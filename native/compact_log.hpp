// algorithm=compact: the log of lua/compact_log.lua, a STRING. The head of that file describes it.
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
    /// Where a walk from the oldest entry on has ended, or where another one begins.
    struct Place {
        double entry;
        double passed;
        double bytes;   // of the numbers of passed entries
        double within;  // how many of the passed entries are in a run that goes on; its bytes are not counted
    };

    /// Where an entry has left the ring of a log in this call: what follows may be near.
    struct PlaceLeft {
        RedisModuleString* key;
        double at;  // the byte of the ring
        double size;
        double entry;  // before the number there
    };

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
        double base = 0;    // where the ring begins in it
        double dead = 0;    // of a blocked log: the number of bytes in front of its numbers that stand for nothing
        double deadAt = 0;  // where the last run of no entries in them begins
        std::optional<Place> place;
        std::optional<PlaceLeft> left;
        double patchAt = 0;     // bytes of the ring in front of `patch`
        std::string patch;      // to be written into the ring
        double unmarkedAt = 0;  // bytes of the ring that marks do not tell of any more: from here on,
        double unmarked = 0;    // so many
        std::string next;
        std::string latest;

        bool canHaveRuns() const { return newest - oldest <= kMostEntriesOfLog && used <= kMostEntriesOfLog; }
    };

    static constexpr double kMostEntries = kLargestCount;

    CompactLog(Redis& redis, const Clock& clock, const Arguments&)
        : redis_(redis), clock_(clock), marks_(redis, clock) {}

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
    struct Near;
    struct Split;
    struct Numbers;

    /// What marks tell of a log.
    class Marks {
      public:
        Marks(Redis& redis, const Clock& clock) : redis_(redis), clock_(clock) {}

        Near near(const Log& log, double time);
        static void unmark(Log& log, double at, double length);
        std::string clear(Log& log);

      private:
        bool areThere(const Log& log) const;
        void search(const Log& log, double time, const auto& placeAt, const auto& fromBehind, Near& found);

        Redis& redis_;
        const Clock& clock_;
    };

    Found readFront(Log& log);
    Found readBlocked(Log& log, std::string_view bytes);
    void skipDead(Log& log);
    bool dropStale(Log& log, double horizon);
    static double spanOf(const Log& log, std::string_view numbers);
    std::string ofRing(const Log& log, double skipped, double length);
    Walk walk(const Log& log, bool forward, double most, double time, const Place* from = nullptr);
    std::optional<double> placeOf(const Log& log, double time);
    double numberAfter(const Log& log, double skipped, double& bytes);
    Place leftBefore(const Log& log, double time);
    void flatten(Log& log);
    void pull(Log& log, double bytes);
    void refill(Log& log);
    std::string spill(Log& log, bool& isWritten);
    Split split(Log& log, double time, double more, bool isCounted = false);
    void insert(Log& log, double time, double more);
    double farthest(const Log& log) const;
    void stepBack(Log& log, double farthest);
    bool takeOut(Log& log, double logged, bool hasStepped, double most);
    std::optional<bool> takeOutOfRing(Log& log, double logged, double most);
    bool takeOutInside(Log& log, double logged, double place, double most, double reach, bool mayMove);
    bool takeOutInFront(Log& log, double place, double most);
    void writePatch(Log& log);
    void write(Log& log);
    void drop(Log& log, double most, double time);
    void shortenRun(Log& log, double entries);
    std::string writeBlocked(Log& log);
    std::string overwriteBlocked(Log& log, std::string_view head, double dead);
    double arrival(Log& log, double skipped);
    std::string set(const Log& log, std::string_view bytes, double ttl);

    Redis& redis_;
    const Clock& clock_;
    Marks marks_;
};

}  // namespace sliding_log::native
