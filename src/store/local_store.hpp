// This node's own store: logs in memory that all workers share. It answers at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "limit/verdict.hpp"
#include "store/log_throttle.hpp"
#include "store/zone.hpp"

namespace sliding_log {

struct LocalLog;

class LocalStore {
  public:
    /// The most limits that one request may ask; refused by the configuration beyond.
    static constexpr std::size_t kMostLogs = 32;

    explicit LocalStore(const Zone& zone) : zone_(zone) {}

    /// Asks all the limits, all or nothing; questions and verdicts are as many, and at most kMostLogs, and `unique` is
    /// the request's own name. False: the zone is too small for these logs even when nothing else is in it, which the
    /// error log tells. `loggedMs` is set to what takeBack() wants.
    bool ask(std::span<const Question> questions, std::span<Verdict> verdicts, std::string_view unique,
             std::uint64_t& loggedMs);

    /// Takes back what an ask() that admitted at `takenMs` logged at `loggedMs`, and ends the blocks that this leaves
    /// without a reason; once.
    void takeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                  std::uint64_t takenMs);

  private:
    class Lock;

    bool decideAll(std::span<const Question> questions, std::span<Verdict> verdicts, std::string_view unique,
                   std::uint64_t& loggedMs);
    LocalLog* find(std::string_view name) const;
    LocalLog* findOrCreate(const Question& question, std::uint64_t now);
    LocalLog* create(const Question& question, std::uint64_t now);
    LocalLimit* limitOf(std::string_view logKey);
    bool grow(LocalLog& log, std::size_t cells);
    Chain takeCells(const LocalLimit& limit, std::size_t count);
    Cell* takeCell(const LocalLimit* limit);
    bool evictFor(const LocalLimit* limit);
    bool evictExpired(LocalLimit& limit);
    LocalLog* evictable(const LocalLimit& limit) const;
    LocalLog* largestEvictable(std::size_t leastCells) const;
    void erase(LocalLog& log);
    void giveBack(LocalLog& log, const Chain& cells) const;
    void uncount(LocalLimit& limit, std::size_t cells) const;
    void warnOfEviction(LocalLimit& limit) const;

    Zone zone_;
    LogThrottle tooSmall_;
};

}  // namespace sliding_log
