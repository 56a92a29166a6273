#include "store/redis_store.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "redis/addresses.hpp"
#include "redis/sentinel.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// The same for stores with the same logs, also after reloads.
std::uint64_t identityOf(const RedisSettings& settings) {
    const DecimalText database(settings.database);
    std::string text;
    for (const std::string_view part : {view(settings.name), view(settings.master), database.view()}) {
        text.append(part).push_back('\0');
    }
    const std::span servers(static_cast<const ServerSettings*>(settings.servers.elts), settings.servers.nelts);
    for (const ServerSettings& server : servers) {
        text.append(view(server.text)).push_back('\0');
    }
    return std::hash<std::string>()(text);
}

std::unique_ptr<Topology> topologyOf(const RedisSettings& settings, ClusterOwner& owner, StoreLog& log) {
    const auto& server = *static_cast<const ServerSettings*>(settings.servers.elts);
    switch (static_cast<Mode>(settings.mode)) {
        case Mode::Cluster:
            return std::make_unique<Cluster>(owner, log, settings);
        case Mode::Sentinel:
            return std::make_unique<SingleServer>(owner, log, settings, nameOf(settings),
                                                  std::make_unique<SentinelDiscovery>(settings, log.nginxLog()));
        case Mode::Standalone:
            break;
    }
    return std::make_unique<SingleServer>(owner, log, settings, nameOf(settings),
                                          std::make_unique<Addresses>(settings, server));
}

}  // namespace

RedisStore::RedisStore(const RedisSettings& settings, KnownDenials denials, Permits permits, LocalStore& local,
                       const CounterRegistry& registry, ngx_log_t* log)
    : settings_(settings),
      identity_(identityOf(settings)),
      log_(settings, log),
      registry_(registry),
      unplacedCounters_(counters(nameOf(settings))),
      hasBeenReady_(settings.used != 0),
      knownDenials_(denials),
      takeBacks_(*this, settings, log_, knownDenials_, isolatedLogs_, log),
      decisions_(*this, settings, log_, knownDenials_, permits, identity_, isolatedLogs_, takeBacks_, log),
      renewals_(*this, settings, log_, local, log),
      nameRecords_(*this, settings, log_),
      flush_(
          this, [](void* self) { static_cast<RedisStore*>(self)->flush(); }, log),
      credentials_(settings, *this, log),
      topology_(topologyOf(settings, *this, log_)) {}

/// A worker that exits resumes no requests: all waiters are removed before hiredis reports the calls.
RedisStore::~RedisStore() {
    decisions_.waiting().detachAll();
    dying_ = true;
    decisions_.loseAll();
    takeBacks_.loseAll();
    topology_->forEachServer([](Server& server) {
        while (Call* call = server.takeWaiting()) {
            call->lost();
        }
    });
}

void RedisStore::start() {
    if (!started_ && !mustQuit()) {
        started_ = true;
        topology_->start();
    }
}

bool RedisStore::canBeAsked(std::uint16_t hashSlot) {
    return topology_->canBeAsked(hashSlot) && hasBeenReady_;
}

void RedisStore::letGo() {
    expected_--;
    if (quitting_) {
        flush_.post();  // the connection may be of no use any more
    }
}

void RedisStore::passwordRead() {
    topology_->forEachServer([](Server& server) { server.authenticateAgain(); });
}

std::size_t RedisStore::tick() {
    unplacedCounters_.touch(nowMs());
    if (!started_) {
        nameRecords_.touch();
        return 0;
    }
    topology_->forEachServer([](Server& server) { server.tick(); });
    nameRecords_.tick();
    return decisions_.tick() + takeBacks_.freeUnused() + renewals_.freeUnused();
}

/// The counters of the server of this hash slot.
ServerCounters& RedisStore::countersOf(std::uint16_t hashSlot) {
    Server* server = serverOf(hashSlot);
    return server == nullptr ? unplacedCounters_ : server->counters();
}

bool RedisStore::isWell(std::uint16_t hashSlot) {
    const Server* server = topology_->serverOf(hashSlot);
    return server != nullptr && server->isWell();
}

bool RedisStore::haveOneServer(std::uint16_t hashSlot, std::uint16_t other) {
    const Server* server = topology_->serverOf(hashSlot);
    return server != nullptr && server == topology_->serverOf(other);
}

/// The worker was told to quit, which is not reported without a connection: the time for its take-backs starts now.
void RedisStore::noteQuit() {
    if (mustQuit() && !quitting_) {
        quitting_ = true;
        takeBacks_.workerQuits();
        decisions_.endPermits(true);
    }
}

/// At the end of an event-loop turn: sends all its checks in as few calls as possible.
void RedisStore::flush() {
    topology_->forEachServer([this](Server& server) { decisions_.flush(server); });
    decisions_.askAhead();
    closeWhenUnused();
}

/// The time argument of a call: the time of this node, or "" for that of the server, which always tells how old a lease
/// is. Valid until the next call of this function.
std::string_view RedisStore::stamp(Algorithm algorithm) {
    if (settings_.clock != static_cast<ngx_uint_t>(Clock::Nginx) || traitsOf(algorithm).hasLeases) {
        return "";
    }
    now_ = DecimalText(wallClockMs());
    return now_.view();
}

Server* RedisStore::redirectedBy(const Call& call, const redisReply& reply, StoreError error) {
    const std::optional<Redirect> redirect = readRedirect(replyText(reply));
    Server* target = redirect ? topology_->follow(*redirect, *call.server, error == StoreError::Moved) : nullptr;
    return target != nullptr && target->canBeAsked() ? target : nullptr;
}

void RedisStore::leaveAsReadOnly(Server& server, const redisReply& reply) {
    log_.trouble(NGX_LOG_ERR, server.shownName(), "answered", replyText(errorOfCall(reply)));
    server.leaveAsReadOnly();
}

// ---- requests under way

void RedisStore::begin(Lease& lease) {
    renewals_.begin(lease);
}

void RedisStore::end(Lease& lease) {
    const Check& check = *lease.check;
    renewals_.end(lease);
    if (lease.mayBeInRedis) {
        takeBacks_.release(check, lease.unique);
    }
    if (quitting_) {
        flush_.post();  // the connection may be of no use any more
    }
}

// ---- events of the servers

void RedisStore::serverReady(Server& server) {
    topology_->serverReady(server);
    hasBeenReady_ = true;
    takeBacks_.sendSoon();
    if (server.hasReplied()) {
        renewals_.serverReady();
        nameRecords_.tick();
    }
    flush();
}

void RedisStore::serverDown(Server& server) {
    topology_->serverDown(server);
    decisions_.serverDown(server);
    renewals_.countLocally();
    decisions_.waiting().stopIfEmpty();
}

void RedisStore::serverLeaves(Server& server) {
    decisions_.serverLeaves(server);
    takeBacks_.serverLeaves(server);
    while (Call* call = server.takeWaiting()) {
        call->leftBehind();
    }
}

void RedisStore::mapChanged() {
    decisions_.mapChanged();
    takeBacks_.sendSoon();
}

/// Requests may end in the same turn and have entries to give back.
void RedisStore::workerQuits() {
    noteQuit();
    flush_.post();
}

void RedisStore::closeWhenUnused() {
    if (isLeaving()) {
        decisions_.waiting().stopIfEmpty();
        takeBacks_.stopWaiting();
        topology_->forEachServer([](Server& server) { server.closeIfUnused(); });
    }
}

}  // namespace sliding_log
