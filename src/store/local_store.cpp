#include "store/local_store.hpp"

#include <algorithm>
#include <functional>

#include "limit/decide.hpp"

namespace sliding_log {

namespace {

constexpr ngx_msec_t kWarnEveryMs = 60'000;

ngx_uint_t hashOf(std::string_view name) {
    return std::hash<std::string_view>()(name);
}

}  // namespace

void insertLocalLog(ngx_rbtree_node_t* root, ngx_rbtree_node_t* node, ngx_rbtree_node_t* sentinel) {
    const LocalLog& log = LocalLog::of(node);
    ngx_rbtree_node_t** place = nullptr;
    for (ngx_rbtree_node_t* parent = root;; parent = *place) {
        place = compareWith(LocalLog::of(parent), node->key, log.name()) < 0 ? &parent->left : &parent->right;
        if (*place == sentinel) {
            node->parent = parent;
            break;
        }
    }
    *place = node;
    node->left = node->right = sentinel;
    ngx_rbt_red(node);
}

/// Holds the zone's mutex; one request is one transaction.
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

bool LocalStore::ask(std::span<const Question> questions, std::span<Verdict> verdicts, std::string_view unique,
                     std::uint64_t& loggedMs) {
    const bool isAnswered = decideAll(questions, verdicts, unique, loggedMs);
    if (!isAnswered && tooSmall_.allows()) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "\"sliding_log_zone\" of %uzk is too small for the logs of one request, which on_error decides; "
                      "make it larger",
                      static_cast<size_t>(zone_.pool->end - reinterpret_cast<u_char*>(zone_.pool)) / 1024);
    }
    return isAnswered;
}

bool LocalStore::decideAll(std::span<const Question> questions, std::span<Verdict> verdicts, std::string_view unique,
                           std::uint64_t& loggedMs) {
    const Lock lock(zone_);
    LocalLog* logs[kMostLogs];
    LogState* states[kMostLogs];
    const std::size_t count = questions.size();
    std::uint64_t now = ngx_current_msec;  // monotonic, and the same for all workers of the machine
    for (std::size_t i = 0; i < count; i++) {
        logs[i] = findOrCreate(questions[i], now);
        if (logs[i] == nullptr) {
            return false;
        }
        // a worker looks at the time once a turn: another one's may be some ms ahead
        now = std::max(now, logs[i]->clock);
        states[i] = &logs[i]->state;
    }
    for (std::size_t i = 0; i < count; i++) {
        logs[i]->clock = now;
    }
    return decide(questions, std::span<LogState* const>(states, count), verdicts, now, unique, loggedMs,
                  [this](LogState& state, std::size_t capacity) { return grow(state, capacity); });
}

void LocalStore::takeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs) {
    const Lock lock(zone_);
    const std::uint64_t now = ngx_current_msec;
    for (const Question& question : questions) {
        LocalLog* log = find(question.key);
        if (log != nullptr && log->state.suits(question)) {
            log->clock = std::max(now, log->clock);
            sliding_log::takeBack(log->state, question, log->clock, unique, loggedMs, takenMs);
        }
    }
}

LocalLog* LocalStore::find(std::string_view name) const {
    const ngx_uint_t hash = hashOf(name);
    ngx_rbtree_node_t* node = zone_.header->logs.root;
    while (node != &zone_.header->sentinel) {
        const int order = compareWith(LocalLog::of(node), hash, name);
        if (order == 0) {
            return &LocalLog::of(node);
        }
        node = order < 0 ? node->left : node->right;
    }
    return nullptr;
}

/// The log, as the one used last and safe from eviction in this transaction; nullptr when the zone is too small.
LocalLog* LocalStore::findOrCreate(const Question& question, std::uint64_t now) {
    LocalLog* log = find(question.key);
    if (log == nullptr) {
        log = create(question, now);
        if (log == nullptr) {
            return nullptr;
        }
    } else {
        if (!log->state.suits(question)) {
            freeBytes(log->state);
            log->state = LogState(question, now);
        }
        ngx_queue_remove(&log->used);
    }
    ngx_queue_insert_head(&zone_.header->used, &log->used);
    log->transaction = zone_.header->transaction;
    return log;
}

LocalLog* LocalStore::create(const Question& question, std::uint64_t now) {
    // as limit_req does: what expired goes a little faster than new logs come
    for (int i = 0; i < 2; i++) {
        evictOne(false);
    }
    const std::string_view name = question.key;
    void* memory = allocate(sizeof(LocalLog) + name.size());
    if (memory == nullptr) {
        return nullptr;
    }
    auto* log = new (memory) LocalLog{.node = {},
                                      .used = {},
                                      .transaction = 0,
                                      .clock = now,
                                      .state = LogState(question, now),
                                      .nameLength = name.size()};
    log->node.key = hashOf(name);
    std::memcpy(static_cast<void*>(log + 1), name.data(), name.size());
    ngx_rbtree_insert(&zone_.header->logs, &log->node);
    return log;
}

/// Moves what is kept of a key to a larger memory.
bool LocalStore::grow(LogState& state, std::size_t capacity) {
    auto* bytes = static_cast<std::uint8_t*>(allocate(capacity));
    if (bytes == nullptr) {
        return false;
    }
    std::uint8_t* before = state.bytes();
    state.moveTo(bytes, capacity);
    if (before != nullptr) {
        ngx_slab_free_locked(zone_.pool, before);
    }
    return true;
}

void LocalStore::freeBytes(const LogState& state) const {
    if (state.bytes() != nullptr) {
        ngx_slab_free_locked(zone_.pool, state.bytes());
    }
}

/// Memory of the zone; where there is none, the logs that were used longest ago go, live ones too. None goes for what
/// no zone of this size could hold.
void* LocalStore::allocate(std::size_t size) {
    if (size > static_cast<std::size_t>(zone_.pool->end - zone_.pool->start)) {
        return nullptr;
    }
    void* memory = ngx_slab_alloc_locked(zone_.pool, size);
    while (memory == nullptr && evictOne(true)) {
        memory = ngx_slab_alloc_locked(zone_.pool, size);
    }
    return memory;
}

/// Drops the log that was used longest ago, if it has expired or `evenLive`; true when one went.
bool LocalStore::evictOne(bool evenLive) {
    if (ngx_queue_empty(&zone_.header->used)) {
        return false;
    }
    LocalLog& last = LocalLog::of(ngx_queue_last(&zone_.header->used));
    if (last.transaction == zone_.header->transaction) {
        return false;
    }
    const bool isLive = last.state.endsAt() > ngx_current_msec;
    if (isLive) {
        if (!evenLive) {
            return false;
        }
        warnOfEviction();
    }
    erase(last);
    return true;
}

void LocalStore::erase(LocalLog& log) {
    ngx_queue_remove(&log.used);
    ngx_rbtree_delete(&zone_.header->logs, &log.node);
    freeBytes(log.state);
    ngx_slab_free_locked(zone_.pool, &log);
}

void LocalStore::warnOfEviction() const {
    ZoneHeader& header = *zone_.header;
    if (header.everWarned != 0 && ngx_current_msec - header.evictionWarned < kWarnEveryMs) {
        return;
    }
    header.everWarned = 1;
    header.evictionWarned = ngx_current_msec;
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "\"sliding_log_zone\" is full: live logs of the keys used longest ago are dropped, which forgets "
                  "their requests; make it larger");
}

}  // namespace sliding_log
