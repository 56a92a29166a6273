#include "store/local_store.hpp"

#include <algorithm>
#include <functional>

#include "limit/decide.hpp"
#include "store/local_log.hpp"

namespace sliding_log {

namespace {

constexpr ngx_msec_t kWarnEveryMs = 60'000;  // between two warnings of one limit
constexpr ngx_msec_t kWarnAnyEveryMs = 1'000;
constexpr std::size_t kMostSearched = 16;  // number of limits searched for an expired log

ngx_uint_t hashOf(std::string_view name) {
    return std::hash<std::string_view>()(name);
}

bool isLive(const LocalLog& log) {
    return log.state.endsAt() > ngx_current_msec;
}

}  // namespace

/// Holds the mutex of the zone; each request is one transaction.
class LocalStore::Lock {
  public:
    explicit Lock(Zone& zone) : pool_(*zone.pool) {
        ngx_shmtx_lock(&pool_.mutex);
        zone.header->transaction++;
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
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "\"sliding_log_zone\" of %uzk is too small for the logs of one request, which on_error decides; "
                      "make it larger",
                      static_cast<size_t>(zone_.pool->end - reinterpret_cast<u_char*>(zone_.pool)) / 1024);
    }
}

bool LocalStore::decideAll(std::span<const Check> checks, std::span<Verdict> verdicts, std::string_view unique,
                           std::uint64_t& loggedMs) {
    const Lock lock(zone_);
    LocalLog* logs[kMostLogs];
    LogState* states[kMostLogs];
    const std::size_t count = checks.size();
    std::uint64_t now = ngx_current_msec;  // monotonic, and the same for all workers of the machine
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
    const bool isAnswered =
        decide(checks, std::span<LogState* const>(states, count), verdicts, now, unique, loggedMs,
               [this](LogState& state, std::size_t cells) { return grow(LocalLog::of(state), cells); });
    for (std::size_t i = 0; i < count; i++) {
        giveBack(*logs[i], logs[i]->state.takeSpare(now));
    }
    return isAnswered;
}

void LocalStore::takeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs) {
    const Lock lock(zone_);
    const std::uint64_t now = ngx_current_msec;
    for (const Check& check : checks) {
        if (check.owed() > 0) {
            if (!owe(check)) {
                tellTooSmall();
            }
            continue;
        }
        LocalLog* log = find(check.key);
        if (log != nullptr && log->state.suits(check)) {
            log->clock = std::max(now, log->clock);
            sliding_log::takeBack(log->state, check, log->clock, unique, loggedMs, takenMs);
            giveBack(*log, log->state.takeSpare(log->clock));
        }
    }
}

std::uint64_t LocalStore::renew(const Check& check, std::int64_t entries, std::uint64_t loggedMs) {
    const Lock lock(zone_);
    const std::uint64_t now = ngx_current_msec;
    if (const LocalLog* other = find(check.key); other != nullptr && !other->state.suits(check)) {
        return 0;  // since a reload the name has another algorithm, which this request is not counted by
    }
    LocalLog* log = findOrCreate(check, now);
    bool isLogged = false;
    if (log != nullptr) {
        log->clock = std::max(now, log->clock);
        isLogged =
            sliding_log::renew(log->state, check, log->clock, loggedMs, entries,
                               [this](LogState& state, std::size_t cells) { return grow(LocalLog::of(state), cells); });
        giveBack(*log, log->state.takeSpare(log->clock));
    }
    if (!isLogged) {
        tellTooSmall();
        return 0;
    }
    return log->clock;
}

/// False if the zone is too small.
bool LocalStore::owe(const Check& check) {
    const std::uint64_t now = ngx_current_msec;
    LocalLog* log = findOrCreate(check, now);
    if (log == nullptr) {
        return false;
    }
    log->clock = std::max(now, log->clock);
    const bool isLogged = sliding_log::owe(log->state, check, log->clock, [this](LogState& state, std::size_t cells) {
        return grow(LocalLog::of(state), cells);
    });
    giveBack(*log, log->state.takeSpare(log->clock));
    return isLogged;
}

LocalLog* LocalStore::find(std::string_view name) const {
    const ngx_uint_t hash = hashOf(name);
    ngx_rbtree_node_t* treeNode = zone_.header->logs.root;
    while (treeNode != &zone_.header->sentinel) {
        LocalLog& log = LocalLog::of(treeNode);
        const int order = compareWith(log, hash, name);
        if (order == 0) {
            return &log;
        }
        treeNode = order < 0 ? treeNode->left : treeNode->right;
    }
    return nullptr;
}

/// The log, marked as most recently used and protected from eviction in this transaction; nullptr if the zone is too
/// small.
LocalLog* LocalStore::findOrCreate(const Check& check, std::uint64_t now) {
    LocalLog* log = find(check.key);
    if (log == nullptr) {
        log = create(check, now);
        if (log == nullptr) {
            return nullptr;
        }
    } else {
        if (!log->state.suits(check)) {
            giveBack(*log, log->state.takeAll());
            log->begin(check, now);
        }
        ngx_queue_remove(&log->used);
    }
    ngx_queue_insert_head(&log->limit->logs, &log->used);
    log->transaction = zone_.header->transaction;
    return log;
}

LocalLog* LocalStore::create(const Check& check, std::uint64_t now) {
    LocalLimit* limit = limitOf(check.key);
    if (limit == nullptr) {
        return nullptr;
    }
    // counted first, so that the limit stays while other logs are evicted
    const std::size_t cells = 1 + LocalLog::cellsOfName(check.key.size());
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
    log.treeNode.key = hashOf(check.key);
    ngx_rbtree_insert(&zone_.header->logs, &log.treeNode);
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
    Cell* cell = zone_.header->freeCells.take();
    if (cell != nullptr) {
        return cell;
    }
    void* memory = ngx_slab_alloc_locked(zone_.pool, kCellBytes);
    if (memory != nullptr) {
        return new (memory) Cell();
    }
    while (cell == nullptr && evictFor(limit)) {
        cell = zone_.header->freeCells.take();
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
    ngx_rbtree_delete(&zone_.header->logs, &log.treeNode);
    FreeCells& freeCells = zone_.header->freeCells;
    freeCells.put(log.state.takeAll());
    freeCells.put(log.nameCells());
    const std::size_t cells = log.cells;
    freeCells.put(*new (static_cast<void*>(&log)) Cell());
    uncount(limit, cells);
}

/// Frees cells that the log does not need any more.
void LocalStore::giveBack(LocalLog& log, const Chain& cells) const {
    if (cells.count > 0) {
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
    const ngx_msec_t now = ngx_current_msec;
    if ((limit.everWarned != 0 && now - limit.warned < kWarnEveryMs) ||
        (header.everWarned != 0 && now - header.evictionWarned < kWarnAnyEveryMs)) {
        return;
    }
    limit.everWarned = header.everWarned = 1;
    limit.warned = header.evictionWarned = now;
    const ngx_str_t name = toNgx(limit.shownName());
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "\"sliding_log_zone\" is full: live logs of limit \"%V\" are dropped, of the keys used longest ago, "
                  "which forgets their requests; make it larger",
                  &name);
}

}  // namespace sliding_log
