#include "store/local_store.hpp"

#include <algorithm>
#include <functional>

namespace sliding_log {

namespace {

constexpr std::size_t kFirstCapacity = 16;  // bytes of numbers
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

bool LocalStore::ask(std::span<const Question> questions, std::span<Verdict> verdicts, std::uint64_t& loggedMs) {
    const Lock lock(zone_);
    LocalLog* logs[kMostLogs];
    loggedMs = ngx_current_msec;  // monotonic, and the same for all workers of the machine
    for (std::size_t i = 0; i < questions.size(); i++) {
        logs[i] = findOrCreate(questions[i].key);
        if (logs[i] == nullptr) {
            return false;
        }
        // a worker looks at the time once a turn: another one's may be some ms ahead
        loggedMs = std::max(loggedMs, logs[i]->newest);
    }

    bool admitted = true;
    for (std::size_t i = 0; i < questions.size(); i++) {
        const Question& question = questions[i];
        ExactLog& log = logs[i]->log;
        const auto window = static_cast<std::uint64_t>(question.windowMs);
        logs[i]->windowMs = window;
        log.prune(loggedMs, window);
        if (question.cap > 0) {
            log.trim(static_cast<std::size_t>(question.cap));
        }
        const auto count = static_cast<std::int64_t>(log.count());
        const std::int64_t over = count - question.limit;  // how many must leave, and one more, to make room
        const auto msUntilLeaves = [&](std::size_t place) {
            return static_cast<std::int64_t>(log.at(place) + window - loggedMs);
        };
        verdicts[i].remaining = std::max<std::int64_t>(-over, 0);
        verdicts[i].resetMs = count > 0 ? msUntilLeaves(0) : question.windowMs;
        verdicts[i].retryMs = over < 0              ? 0
                              : question.limit == 0 ? Verdict::kNever
                                                    : msUntilLeaves(static_cast<std::size_t>(over));
        admitted = admitted && over < 0;
    }
    if (!admitted) {
        return true;
    }
    for (std::size_t i = 0; i < questions.size(); i++) {
        if (!makeRoom(*logs[i])) {
            return false;
        }
    }
    for (std::size_t i = 0; i < questions.size(); i++) {
        logs[i]->log.add(loggedMs);
        logs[i]->newest = loggedMs;
        verdicts[i].remaining--;
    }
    return true;
}

void LocalStore::takeBack(std::span<const Question> questions, std::uint64_t loggedMs) {
    const Lock lock(zone_);
    for (const Question& question : questions) {
        if (LocalLog* log = find(question.key)) {
            log->log.remove(loggedMs);
        }
    }
}

LocalLog* LocalStore::find(std::string_view name) {
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
LocalLog* LocalStore::findOrCreate(std::string_view name) {
    LocalLog* log = find(name);
    if (log == nullptr) {
        log = create(name);
        if (log == nullptr) {
            return nullptr;
        }
    } else {
        ngx_queue_remove(&log->used);
    }
    ngx_queue_insert_head(&zone_.header->used, &log->used);
    log->transaction = zone_.header->transaction;
    return log;
}

LocalLog* LocalStore::create(std::string_view name) {
    // as limit_req does: what expired goes a little faster than new logs come
    for (int i = 0; i < 2; i++) {
        evictOne(false);
    }
    void* memory = allocate(sizeof(LocalLog) + name.size());
    if (memory == nullptr) {
        return nullptr;
    }
    auto* log = new (memory) LocalLog();
    log->node.key = hashOf(name);
    log->nameLength = name.size();
    std::memcpy(static_cast<void*>(log + 1), name.data(), name.size());
    ngx_rbtree_insert(&zone_.header->logs, &log->node);
    return log;
}

bool LocalStore::makeRoom(LocalLog& log) {
    if (!log.log.isFull()) {
        return true;
    }
    const std::size_t capacity = std::max(log.log.capacity() * 2, kFirstCapacity);
    auto* bytes = static_cast<std::uint8_t*>(allocate(capacity));
    if (bytes == nullptr) {
        return false;
    }
    std::uint8_t* before = log.log.bytes();
    log.log.moveTo(bytes, capacity);
    if (before != nullptr) {
        ngx_slab_free_locked(zone_.pool, before);
    }
    return true;
}

/// Memory of the zone; where there is none, the logs that were used longest ago go, live ones too.
void* LocalStore::allocate(std::size_t size) {
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
    // newest may be ahead of this worker's view of the time
    const auto age = static_cast<std::int64_t>(ngx_current_msec - last.newest);
    const bool isLive = last.log.count() > 0 && age < static_cast<std::int64_t>(last.windowMs);
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
    if (log.log.bytes() != nullptr) {
        ngx_slab_free_locked(zone_.pool, log.log.bytes());
    }
    ngx_slab_free_locked(zone_.pool, &log);
}

void LocalStore::warnOfEviction() {
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
