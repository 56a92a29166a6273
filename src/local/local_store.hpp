// The store of this node: logs in memory shared by all workers. It decides at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "local/zone.hpp"
#include "log_throttle.hpp"

namespace sliding_log {

struct LocalLog;

class LocalStore {
  public:
    /// The maximum number of limits of a request; the configuration refuses more.
    static constexpr std::size_t kMostLogs = 32;

    explicit LocalStore(const Zone& zone) : zone_(zone) {}

    /// Asks all the limits, all or nothing. There are as many verdicts as checks, at most kMostLogs; `unique` is the
    /// name of the request. False if the zone is too small for these logs even when it is empty; this is logged. Sets
    /// `loggedMs` for takeBack().
    bool ask(std::span<const Check> checks, std::span<Verdict> verdicts, std::string_view unique,
             std::uint64_t& loggedMs);

    /// Takes back, once, what an ask() that admitted at `takenMs` logged at `loggedMs`, and ends blocks that have no
    /// reason any more; of a check that is settled, the difference, which may also be added: the request has ended now.
    void takeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                  std::uint64_t takenMs);

    /// Renews these entries of algorithm=inflight, which have the time `loggedMs`; 0: enters them. Returns their new
    /// time; 0 if the zone is too small, and they are not there any more.
    std::uint64_t renew(const Check& check, std::int64_t entries, std::uint64_t loggedMs);

  private:
    class Lock;

    bool decideAll(std::span<const Check> checks, std::span<Verdict> verdicts, std::string_view unique,
                   std::uint64_t& loggedMs);
    bool owe(const Check& check);
    void tellTooSmall();
    LocalLog* find(std::string_view name) const;
    LocalLog* findOrCreate(const Check& check, std::uint64_t now);
    LocalLog* create(const Check& check, ngx_uint_t hash, std::uint64_t now);
    LocalLimit* limitOf(std::string_view logKey);
    bool grow(LocalLog& log, std::size_t cells);
    Chain takeCells(const LocalLimit& limit, std::size_t count);
    Cell* takeCell(const LocalLimit* limit);
    bool evictFor(const LocalLimit* limit);
    bool evictExpired(LocalLimit& limit);
    LocalLog* evictable(const LocalLimit& limit) const;
    LocalLog* largestEvictable(std::size_t leastCells) const;
    void erase(LocalLog& log);
    void forget(LocalLog& log) const;
    void forgetAll() const;
    void freeCells(LocalLog& log, const Chain& cells) const;
    void uncount(LocalLimit& limit, std::size_t cells) const;
    void warnOfEviction(LocalLimit& limit) const;

    Zone zone_;
    LogThrottle tooSmall_;
};

}  // namespace sliding_log
