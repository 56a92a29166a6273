#include "local/local_store.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "local/decide.hpp"
#include "local/local_log.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

constexpr ngx_msec_t kWarnEveryMs = 60'000;  // between two warnings of one limit
constexpr ngx_msec_t kWarnAnyEveryMs = 1'000;
constexpr std::size_t kMostSearched = 16;  // number of limits searched for an expired log

bool isLive(const LocalLog& log) {
    return !log.state.wasLeft() && log.state.endsAt() > nowMs();
}

/// While it lives the contents of these logs are changed; see LogState::beginChange().
class Changes {
  public:
    explicit Changes(std::span<LogState* const> states) : states_(states) {
        std::ranges::for_each(states_, &LogState::beginChange);
    }
    ~Changes() { std::ranges::for_each(states_, &LogState::endChange); }
    Changes(const Changes&) = delete;
    Changes& operator=(const Changes&) = delete;

  private:
    std::span<LogState* const> states_;
};

/// While it lives the links between logs, limits and cells are changed, and how many cells each has. What a process
/// leaves that is killed meanwhile is dropped with all logs.
class Relinking {
  public:
    explicit Relinking(ZoneHeader& header)
        : isRelinking_(header.isRelinking), before_(std::exchange(isRelinking_, true)) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~Relinking() {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        isRelinking_ = before_;
    }
    Relinking(const Relinking&) = delete;
    Relinking& operator=(const Relinking&) = delete;

  private:
    bool& isRelinking_;
    bool before_;
};

}  // namespace

/// Holds the mutex of the zone; each request is one transaction.
class LocalStore::Lock {
  public:
    explicit Lock(const LocalStore& store) : pool_(*store.zone_.pool) {
        ngx_shmtx_lock(&pool_.mutex);
        ZoneHeader& header = *store.zone_.header;
        if (header.isRelinking) {
            store.forgetAll();
        }
        header.transaction++;
    }
    ~Lock() { ngx_shmtx_unlock(&pool_.mutex); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    ngx_slab_pool_t& pool_;
};

bool LocalStore::ask(std::span<const Check> checks, std::span<Verdict> verdicts, std::string_view unique,
                     std::uint64_t& loggedMs) {
    const bool isAnswered = decideAll(checks, verdicts, unique, loggedMs);
    if (!isAnswered) {
        tellTooSmall();
    }
    return isAnswered;
}

void LocalStore::tellTooSmall() {
    if (tooSmall_.allows()) {
        ngx_log_error(NGX_LOG_ERR, processLog(), 0,
                      "\"sliding_log_zone\" of %uzk is too small for the logs of one request, which on_error decides; "
                      "make it larger",
                      static_cast<size_t>(zone_.pool->end - reinterpret_cast<u_char*>(zone_.pool)) / 1024);
    }
}

bool LocalStore::decideAll(std::span<const Check> checks, std::span<Verdict> verdicts, std::string_view unique,
                           std::uint64_t& loggedMs) {
    const Lock lock(*this);
    LocalLog* logs[kMostLogs];
    LogState* states[kMostLogs];
    const std::size_t count = checks.size();
    std::uint64_t now = nowMs();  // monotonic, and the same for all workers of the machine
    for (std::size_t i = 0; i < count; i++) {
        logs[i] = findOrCreate(checks[i], now);
        if (logs[i] == nullptr) {
            return false;
        }
        // workers update the time once per event-loop turn: that of another worker may be some ms ahead
        now = std::max(now, logs[i]->clock);
        states[i] = &logs[i]->state;
    }
    for (std::size_t i = 0; i < count; i++) {
        logs[i]->clock = now;
    }
    const Changes changes(std::span<LogState* const>(states, count));
    const bool isAnswered =
        decide(checks, std::span<LogState* const>(states, count), verdicts, now, unique, loggedMs,
               [this](LogState& state, std::size_t cells) { return grow(LocalLog::of(state), cells); });
    for (std::size_t i = 0; i < count; i++) {
        freeCells(*logs[i], logs[i]->state.takeSpare(now));
    }
    return isAnswered;
}

void LocalStore::takeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs) {
    const Lock lock(*this);
    const std::uint64_t now = nowMs();
    for (const Check& check : checks) {
        if (check.owed() > 0) {
            if (!owe(check)) {
                tellTooSmall();
            }
            continue;
        }
        LocalLog* log = find(check.localKey());
        if (log != nullptr && log->state.suits(check) && !log->state.wasLeft()) {
            LogState* const states[] = {&log->state};
            const Changes changes(states);
            log->clock = std::max(now, log->clock);
            sliding_log::takeBack(log->state, check, log->clock, unique, loggedMs, takenMs);
            freeCells(*log, log->state.takeSpare(log->clock));
        }
    }
}

std::uint64_t LocalStore::renew(const Check& check, std::int64_t entries, std::uint64_t loggedMs) {
    const Lock lock(*this);
    const std::uint64_t now = nowMs();
    if (const LocalLog* other = find(check.localKey()); other != nullptr && !other->state.suits(check)) {
        return 0;  // since a reload the name has another algorithm, which this request is not counted by
    }
    LocalLog* log = findOrCreate(check, now);
    bool isLogged = false;
    if (log != nullptr) {
        LogState* const states[] = {&log->state};
        const Changes changes(states);
        log->clock = std::max(now, log->clock);
        isLogged =
            sliding_log::renew(log->state, check, log->clock, loggedMs, entries,
                               [this](LogState& state, std::size_t cells) { return grow(LocalLog::of(state), cells); });
        freeCells(*log, log->state.takeSpare(log->clock));
    }
    if (!isLogged) {
        tellTooSmall();
        return 0;
    }
    return log->clock;
}

/// False if the zone is too small.
bool LocalStore::owe(const Check& check) {
    const std::uint64_t now = nowMs();
    LocalLog* log = findOrCreate(check, now);
    if (log == nullptr) {
        return false;
    }
    LogState* const states[] = {&log->state};
    const Changes changes(states);
    log->clock = std::max(now, log->clock);
    const bool isLogged = sliding_log::owe(log->state, check, log->clock, [this](LogState& state, std::size_t cells) {
        return grow(LocalLog::of(state), cells);
    });
    freeCells(*log, log->state.takeSpare(log->clock));
    return isLogged;
}

LocalLog* LocalStore::find(std::string_view name) const {
    return zone_.header->logs.find(LogTrees::hashOf(name), name);
}

/// The log, marked as most recently used and protected from eviction in this transaction; nullptr if the zone is too
/// small.
LocalLog* LocalStore::findOrCreate(const Check& check, std::uint64_t now) {
    const ngx_uint_t hash = LogTrees::hashOf(check.localKey());
    LocalLog* log = zone_.header->logs.find(hash, check.localKey());
    const Relinking relinking(*zone_.header);
    if (log == nullptr) {
        log = create(check, hash, now);
        if (log == nullptr) {
            return nullptr;
        }
    } else {
        if (log->state.wasLeft()) {
            forget(*log);
            log->begin(check, now);
        } else if (!log->state.suits(check)) {
            freeCells(*log, log->state.takeAll());
            log->begin(check, now);
        }
        ngx_queue_remove(&log->used);
    }
    ngx_queue_insert_head(&log->limit->logs, &log->used);
    log->transaction = zone_.header->transaction;
    return log;
}

LocalLog* LocalStore::create(const Check& check, ngx_uint_t hash, std::uint64_t now) {
    LocalLimit* limit = limitOf(check.localKey());
    if (limit == nullptr) {
        return nullptr;
    }
    // counted first, so that the limit stays while other logs are evicted
    const std::size_t cells = 1 + LocalLog::cellsOfName(check.localKey().size());
    zone_.header->limits.count(*limit, cells);
    // as in limit_req: expired logs are removed slightly faster than new ones are added
    evictExpired(*limit);
    evictExpired(zone_.header->limits.next());
    const Chain memory = takeCells(*limit, cells);
    if (memory.count == 0) {
        uncount(*limit, cells);
        return nullptr;
    }
    LocalLog& log = LocalLog::make(memory, *limit, check, now);
    zone_.header->logs.insert(hash, log);
    return &log;
}

/// Created if the limit has no logs; nullptr if the zone is too small.
LocalLimit* LocalStore::limitOf(std::string_view logKey) {
    LocalLimits& limits = zone_.header->limits;
    const std::string_view name = LocalLimit::nameIn(logKey);
    LocalLimit* limit = limits.find(name);
    if (limit == nullptr) {
        Cell* cell = takeCell(nullptr);
        limit = cell == nullptr ? nullptr : &limits.make(*cell, name);
    }
    return limit;
}

bool LocalStore::grow(LocalLog& log, std::size_t cells) {
    const Relinking relinking(*zone_.header);
    Chain memory = takeCells(*log.limit, cells);
    if (memory.count == 0) {
        return false;
    }
    zone_.header->limits.count(*log.limit, cells);
    log.cells += static_cast<std::uint32_t>(cells);
    while (memory.count > 0) {
        log.state.give(*memory.pop());
    }
    return true;
}

/// This number of cells for the limit, at least one; none if there are not enough.
Chain LocalStore::takeCells(const LocalLimit& limit, std::size_t count) {
    Chain taken;
    while (taken.count < count) {
        Cell* cell = takeCell(&limit);
        if (cell == nullptr) {
            zone_.header->freeCells.put(taken);
            return {};
        }
        taken.push(*cell);
    }
    return taken;
}

/// A cell for the limit (nullptr: for one that has none yet), or nullptr. Cells are never returned to the zone, since
/// nothing else in it needs memory.
Cell* LocalStore::takeCell(const LocalLimit* limit) {
    FreeCells& freeCells = zone_.header->freeCells;
    if (freeCells.count() == 0) {
        freeCells.put(zone_.header->cellPages.take(*zone_.pool));
    }
    Cell* cell = freeCells.take();
    while (cell == nullptr && evictFor(limit)) {
        cell = freeCells.take();
    }
    return cell;
}

/// Drops a log, so that the limit gets a cell: an expired log of any limit; otherwise the least recently used log of
/// this limit if it has its share of the zone, or of the limit that has most. False if no log may be dropped.
bool LocalStore::evictFor(const LocalLimit* limit) {
    LocalLimits& limits = zone_.header->limits;
    for (std::size_t i = 0; i < std::min(limits.limits, kMostSearched); i++) {
        if (evictExpired(limits.next())) {
            return true;
        }
    }
    LocalLog* log = limit != nullptr && limits.hasItsShare(*limit) ? evictable(*limit) : nullptr;
    if (log == nullptr) {
        log = largestEvictable(limit == nullptr ? 0 : limit->cells);
    }
    if (log == nullptr) {
        return false;
    }
    if (isLive(*log)) {
        warnOfEviction(*log->limit);
    }
    erase(*log);
    return true;
}

/// Drops the least recently used log of the limit if it has expired; true if it was dropped.
bool LocalStore::evictExpired(LocalLimit& limit) {
    LocalLog* last = evictable(limit);
    if (last == nullptr || isLive(*last)) {
        return false;
    }
    erase(*last);
    return true;
}

/// The least recently used log of the limit; nullptr if all its logs are in use by this transaction.
LocalLog* LocalStore::evictable(const LocalLimit& limit) const {
    if (ngx_queue_empty(&limit.logs)) {
        return nullptr;
    }
    LocalLog& last = LocalLog::of(ngx_queue_last(&limit.logs));
    return last.transaction == zone_.header->transaction ? nullptr : &last;
}

/// The log of the limit which has most cells, at least this number.
LocalLog* LocalStore::largestEvictable(std::size_t leastCells) const {
    LocalLog* found = nullptr;
    zone_.header->limits.forEach([&](LocalLimit& limit) {
        if (limit.cells >= leastCells) {
            if (LocalLog* last = evictable(limit)) {
                leastCells = limit.cells + 1;
                found = last;
            }
        }
    });
    return found;
}

void LocalStore::erase(LocalLog& log) {
    LocalLimit& limit = *log.limit;
    ngx_queue_remove(&log.used);
    zone_.header->logs.erase(log);
    FreeCells& freeCells = zone_.header->freeCells;
    if (log.state.wasLeft()) {
        forget(log);
    } else {
        freeCells.put(log.state.takeAll());
    }
    freeCells.put(log.nameCells());
    const std::size_t cells = log.cells;
    freeCells.put(*new (static_cast<void*>(&log)) Cell());
    uncount(limit, cells);
}

/// A worker was killed that was changing the log: what links its cells cannot be relied on. They are lost until
/// forgetAll(), and its entries, too.
void LocalStore::forget(LocalLog& log) const {
    const std::size_t kept = 1 + LocalLog::cellsOfName(log.nameLength);
    const std::size_t lost = log.cells - kept;
    log.cells -= static_cast<std::uint32_t>(lost);
    zone_.header->limits.uncount(*log.limit, lost);
    const ngx_str_t name = toNgx(log.limit->shownName());
    ngx_log_error(NGX_LOG_ERR, processLog(), 0,
                  "a worker was killed while it changed a log in \"sliding_log_zone\": this log of limit \"%V\" is "
                  "dropped, which forgets its requests",
                  &name);
}

/// A worker was killed that was changing what links the logs.
void LocalStore::forgetAll() const {
    ZoneHeader& header = *zone_.header;
    header.logs.reset();
    header.limits.init();
    header.freeCells = FreeCells();
    header.cellPages.reset();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    header.isRelinking = false;
    ngx_log_error(
        NGX_LOG_ERR, processLog(), 0,
        "a worker was killed while it changed the list of logs in \"sliding_log_zone\": all logs of this node "
        "are dropped, which forgets their requests");
}

/// Frees cells that the log does not need any more.
void LocalStore::freeCells(LocalLog& log, const Chain& cells) const {
    if (cells.count > 0) {
        const Relinking relinking(*zone_.header);
        log.cells -= static_cast<std::uint32_t>(cells.count);
        zone_.header->limits.uncount(*log.limit, cells.count);
        zone_.header->freeCells.put(cells);
    }
}

/// Subtracts cells from the limit; removes the limit if none are left.
void LocalStore::uncount(LocalLimit& limit, std::size_t cells) const {
    LocalLimits& limits = zone_.header->limits;
    limits.uncount(limit, cells);
    if (limit.cells == 0) {
        limits.erase(limit);
        zone_.header->freeCells.put(*new (static_cast<void*>(&limit)) Cell());
    }
}

void LocalStore::warnOfEviction(LocalLimit& limit) const {
    ZoneHeader& header = *zone_.header;
    const ngx_msec_t now = nowMs();
    if ((limit.everWarned != 0 && now - limit.warned < kWarnEveryMs) ||
        (header.everWarned != 0 && now - header.evictionWarned < kWarnAnyEveryMs)) {
        return;
    }
    limit.everWarned = header.everWarned = 1;
    limit.warned = header.evictionWarned = now;
    const ngx_str_t name = toNgx(limit.shownName());
    ngx_log_error(NGX_LOG_ERR, processLog(), 0,
                  "\"sliding_log_zone\" is full: live logs of limit \"%V\" are dropped, of the keys used longest ago, "
                  "which forgets their requests; make it larger",
                  &name);
}

}  // namespace sliding_log
