#include "store/redis_store.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "redis/addresses.hpp"
#include "redis/sentinel.hpp"

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
      knownDenials_(denials),
      takeBacks_(*this, settings, log_, knownDenials_, calls_, log),
      prefetch_(permits, identity_,
                [this](const Check& check, std::uint32_t returned, std::string_view name, std::uint64_t loggedMs) {
                    countersOf(check.hashSlot).returnedPermits.add(returned);
                    takeBack({&check, 1}, name, loggedMs, loggedMs - static_cast<std::uint64_t>(check.permitLifeMs));
                }),
      flush_(
          this, [](void* self) { static_cast<RedisStore*>(self)->flush(); }, log),
      deadline_(
          this, [](void* self) { static_cast<RedisStore*>(self)->expire(); }, Timer::Kind::Work, log),
      repeat_(
          this, [](void* self) { static_cast<RedisStore*>(self)->repeatQueued(); }, Timer::Kind::Work, log),
      permitTimer_(
          this, [](void* self) { static_cast<RedisStore*>(self)->endPermits(false); }, Timer::Kind::Chore, log),
      renewalTimer_(
          this, [](void* self) { static_cast<RedisStore*>(self)->watchRenewals(); }, Timer::Kind::Chore, log),
      local_(local),
      leases_([this](std::span<Lease*> leases) { renew(leases); }, log),
      credentials_(settings, *this, log),
      topology_(topologyOf(settings, *this, log_)) {}

/// A worker that exits resumes no requests: all waiters are removed before hiredis reports the calls.
RedisStore::~RedisStore() {
    while (Waiter* waiter = deadlines_.popFront()) {
        waiter->detach();
    }
    dying_ = true;
    while (Call* call = queued_.popFront()) {
        failed(*call, StoreError::Down);
    }
    takeBacks_.loseAll();
    topology_->forEachServer([this](Server& server) {
        while (Call* call = server.takeQueued()) {
            lost(*call);
        }
    });
}

void RedisStore::start() {
    topology_->start();
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
    unplacedCounters_.touch(ngx_current_msec);
    topology_->forEachServer([](Server& server) { server.tick(); });
    writer_.freeMemory();
    reply_ = {};
    std::size_t passing =
        calls_.freeUnused() + batchObjects_.freeUnused() + orphans_.freeUnused() + takeBacks_.freeUnused();
    deadlines_.forEach([&](const Waiter&) { passing++; });
    return passing;
}

/// The counters of the server of this hash slot.
ServerCounters& RedisStore::countersOf(std::uint16_t hashSlot) {
    Server* server = dying_ ? nullptr : topology_->serverOf(hashSlot);
    return server == nullptr ? unplacedCounters_ : server->counters();
}

RedisStore::Reception RedisStore::ask(std::span<const Check> checks, std::string_view unique, ngx_msec_t leftMs,
                                      Waiter& waiter) {
    waiter.permitted = waiter.known = false;
    if (!waiter.permits.empty() && prefetch_.use(checks, waiter)) {
        return Reception::Permitted;
    }
    const Signature& signature = signatureOf(checks);
    const DenialState denialState = knownDenials_.find(signature, checks, ngx_current_msec, waiter.verdicts);
    if (denialState == DenialState::Holds) {
        return Reception::KnownDenied;
    }
    if (checks.size() > 1 && areApart(checks)) {
        return Reception::Apart;
    }
    const bool isLate = leftMs == 0;
    const bool canAsk = !isLate && topology_->canBeAsked(checks.front().hashSlot);
    if (denialState == DenialState::Due && (!canAsk || !knownDenials_.claim(signature, checks, ngx_current_msec))) {
        return Reception::KnownDenied;
    }
    if (!canAsk) {
        countersOf(checks.front().hashSlot).failed(isLate ? StoreError::Timeout : StoreError::Down);
        return Reception::Unavailable;
    }
    if (!refusals_.isEmpty() && isTurnedAway(checks.front().hashSlot)) {
        countersOf(checks.front().hashSlot).failed(StoreError::TryAgain);
        return denialState == DenialState::Due ? Reception::KnownDenied : Reception::Unavailable;
    }
    Batch& batch = batchFor(checks);
    batch.requests++;
    batch.refreshes = batch.refreshes || denialState == DenialState::Due;
    batch.waiters.pushBack(waiter);
    waiter.batch = &batch;
    waiter.checks = checks;
    waiter.unique = unique;
    waiter.apart = false;
    waiter.deadline = ngx_current_msec + std::min(settings_.timeout, leftMs);
    watch(waiter);
    if (!deadline_.isSet() || (leftMs < settings_.timeout && &deadlines_.front() == &waiter)) {
        deadline_.set(waiter.deadline - ngx_current_msec);
    }
    return Reception::Pending;
}

DenialState RedisStore::known(std::span<const Check> checks, std::span<Verdict> verdicts) {
    return knownDenials_.find(signatureOf(checks), checks, ngx_current_msec, verdicts);
}

/// Good until the next one.
const Signature& RedisStore::signatureOf(std::span<const Check> checks) {
    latestSignature_.assign(identity_, checks);
    return latestSignature_;
}

bool RedisStore::isWell(std::uint16_t hashSlot) {
    const Server* server = topology_->serverOf(hashSlot);
    return server != nullptr && server->isWell();
}

bool RedisStore::haveOneServer(std::uint16_t hashSlot, std::uint16_t other) {
    const Server* server = topology_->serverOf(hashSlot);
    return server != nullptr && server == topology_->serverOf(other);
}

/// True if these logs must not be asked in one call.
bool RedisStore::areApart(std::span<const Check> checks) const {
    return !isolatedLogs_.isEmpty(ngx_current_msec) && isolatedLogs_.areApart(checks, ngx_current_msec);
}

bool RedisStore::isTurnedAway(std::uint16_t hashSlot) {
    return refusals_.turnsAway(topology_->serverOf(hashSlot), hashSlot, ngx_current_msec,
                               static_cast<std::uint64_t>(ngx_random()));
}

/// The waiter is woken by its deadline at the latest.
void RedisStore::watch(Waiter& waiter) {
    deadlines_.insertSorted(
        waiter, [](const Waiter& left, const Waiter& right) { return isBefore(left.deadline, right.deadline); });
}

void RedisStore::cancel(Waiter& waiter) {
    if (waiter.batch == nullptr || !waiter.batch->sent) {
        waiter.detach();
        return;
    }
    Orphan& orphan = orphanOf(waiter);
    for (const Check& check : orphan.ownChecks.all()) {
        if (check.leavesWithClient) {
            orphan.markLeaving(check.key);
        }
    }
    takeBacks_.expect();
    orphan.takesBack = true;
    watch(orphan);
}

/// The request continues without a reply, and may have been logged.
void RedisStore::wakeWithoutReply(Waiter& waiter, StoreError error) {
    waiter.orphan = &orphanOf(waiter);
    waiter.wake(waiter, error);
    waiter.orphan = nullptr;
}

Orphan& RedisStore::orphanOf(Waiter& waiter) {
    Orphan& orphan = orphans_.take();
    orphan.replace(waiter);
    return orphan;
}

/// Its batch has been answered. A reservation is taken back in all logs, since it is not used.
void RedisStore::finishOrphan(Orphan& orphan, StoreError error) {
    const bool isInDoubt = orphan.batch->isInDoubt;
    const bool isAdmitted = error == StoreError::None && std::ranges::all_of(orphan.verdicts, &Verdict::hasRoom);
    const bool isHeld =
        isAdmitted && std::ranges::any_of(orphan.verdicts, [](const Verdict& each) { return each.delayMs > 0; });
    orphan.detach();
    if (orphan.late != nullptr) {
        // what an override allowed has no entry; beside it, those of other logs stay
        const bool isLogged = isAdmitted && !isHeld && std::ranges::none_of(orphan.verdicts, [](const Verdict& each) {
                                  return each.override.decides();
                              });
        orphan.late->state = isInDoubt  ? LateReply::State::Unknown
                             : isLogged ? LateReply::State::Logged
                                        : LateReply::State::Void;
        orphan.late->loggedMs = orphan.loggedMs;
    }
    const auto delayMs = static_cast<std::uint64_t>(orphan.verdicts.front().delayMs);
    const std::span<const Check> leavers = orphan.leavers(isHeld);
    if (isAdmitted && !leavers.empty()) {
        takeBack(leavers, orphan.unique, orphan.loggedMs, orphan.loggedMs - delayMs);
    } else if (isInDoubt) {
        takeBacks_.addUnseen(leavers, orphan.unique);
    }
    if (std::exchange(orphan.takesBack, false)) {
        takeBacks_.expected();
    }
    orphans_.giveBack(orphan);
}

/// The worker was told to quit, which is not reported without a connection: the time for its take-backs starts now.
void RedisStore::noteQuit() {
    if (ngx_exiting != 0 && !quitting_) {
        quitting_ = true;
        takeBacks_.workerQuits();
        endPermits(true);
    }
}

// ---- batches

/// The batch that the request joins, of the signature that was made last: the last one with the same checks, if it has
/// not been sent and has room. Those that take Redis long wait for each other, whatever their costs.
Batch& RedisStore::batchFor(std::span<const Check> checks) {
    const bool waits = latestSignature_.hasCosts() && isLong(checks);
    if (waits) {
        latestSignature_.leaveOutCosts();
    }
    Batch* first = batches_.find(latestSignature_);
    if (first == nullptr) {
        first = &newBatch(checks, latestSignature_);
        first->last = first;
        batches_.insert(*first);
        open(*first);
    } else if (first->last->sent || first->last->isFull() || (waits && !first->last->hasCostsOf(checks))) {
        Batch& next = newBatch(checks, latestSignature_);
        first->last->follower = &next;
        first->last = &next;
    }
    return *first->last;
}

Batch& RedisStore::newBatch(std::span<const Check> checks, const Signature& signature) {
    Batch& batch = batchObjects_.take();
    batch.signature = signature;
    batch.requests = 0;
    batch.workOfLogs = workOfLogs(checks);
    batch.workOfRequest = workOfRequest(checks);
    batch.algorithm = checks.front().algorithm;
    batch.hashSlot = checks.front().hashSlot;
    batch.sent = batch.refreshes = false;
    batch.refusedBy = nullptr;
    batch.refusal.clear();
    batch.isInDoubt = batch.isFollower = false;
    batch.notesPermits = std::ranges::any_of(checks, [](const Check& check) { return check.permitLifeMs > 0; });
    hasPermits_ = hasPermits_ || batch.notesPermits;
    batch.hasSoughtPermits = false;
    batch.asked.clear();
    batch.follower = batch.last = nullptr;
    return batch;
}

/// Queues the batch at the server that serves it, or until this server is known.
void RedisStore::open(Batch& batch) {
    Server* server = dying_ ? nullptr : topology_->serverOf(batch.hashSlot);
    (server == nullptr ? unplaced_ : server->batches()).pushBack(batch);
    flush_.post();
}

/// Like open(), for a batch that has already waited: if no server can be asked, it does not wait any more.
void RedisStore::openAgain(List<Batch, Opened>& batches) {
    List<Batch, Opened> again;
    batches.moveTo(again);
    while (Batch* batch = again.popFront()) {
        if (topology_->canBeAsked(batch->hashSlot)) {
            open(*batch);
        } else {
            complete(*batch, StoreError::Down);
            batches.moveTo(again);  // its follower
        }
    }
}

/// The first batch to be sent, nullptr if there is none; the same one until it is removed. Batches without waiters are
/// retired, and those whose requests have got permits in the meantime.
Batch* RedisStore::nextToSend(Server& server) {
    while (!server.batches().isEmpty()) {
        Batch& batch = server.batches().front();
        const bool isFirst = batch.notesPermits && !std::exchange(batch.hasSoughtPermits, true);
        if (isFirst && batch.isFollower) {
            servePermits(batch);
        }
        if (std::exchange(batch.isFollower, false)) {
            denyKnown(batch);
        }
        if (batch.requests > 0) {
            if (isFirst && !quitting_) {
                prefetch_.ask(batch, flushedAt_, settings_.timeout);
            }
            return &batch;
        }
        server.batches().popFront();
        finishBatch(batch);
    }
    return nullptr;
}

/// While the batch has waited for another one, that may have been denied.
void RedisStore::denyKnown(Batch& batch) {
    if (batch.waiters.isEmpty() || batch.refreshes) {
        return;
    }
    const Waiter& first = batch.waiters.front();
    const DenialState state = knownDenials_.find(batch.signature, first.checks, ngx_current_msec, first.verdicts);
    if (state == DenialState::None) {
        return;
    }
    if (state == DenialState::Due && knownDenials_.claim(batch.signature, first.checks, ngx_current_msec)) {
        batch.refreshes = true;
        return;
    }
    List<Waiter, InBatch> denied;
    batch.waiters.moveTo(denied);
    const std::span<const Verdict> verdicts = denied.front().verdicts;
    while (Waiter* waiter = denied.popFront()) {
        std::ranges::copy(verdicts, waiter->verdicts.begin());
        waiter->known = true;
        waiter->detach();
        waiter->wake(*waiter, StoreError::None);
    }
}

/// At the end of an event-loop turn: sends all its checks in as few calls as possible.
void RedisStore::flush() {
    topology_->forEachServer([this](Server& server) { flush(server); });
    closeWhenUnused();
}

void RedisStore::flush(Server& server) {
    if (server.isDown()) {  // followers of batches that were in flight when it went down
        openAgain(server.batches());
    }
    if (hasPermits_) {
        endPermits(false);  // so that they are returned together with what is sent anyway
        flushedAt_ = bootTimeMs();
        if (settings_.clock == static_cast<ngx_uint_t>(Clock::Nginx)) {
            ngx_time_update();  // permits are stamped no earlier than flushedAt_
        }
    }
    takeBacks_.send(server);
    while (server.isReady() && nextToSend(server) != nullptr) {
        Call& call = calls_.take();
        writer_.begin(call, server.batches().front(), stamp(server.batches().front().algorithm));
        bool isFull = false;
        for (Batch* batch = nextToSend(server); batch != nullptr && !isFull && writer_.hasRoomFor(*batch);
             batch = nextToSend(server)) {
            isFull = goesAlone(*batch);
            if (isFull && !call.batches.empty()) {
                break;
            }
            server.batches().popFront();
            batch->sent = true;
            batch->sentAt = ngx_current_msec;
            batch->generation = knownDenials_.generation(batch->signature);
            writer_.add(*batch);
        }
        writer_.finish();
        prefetch_.sendReturns();
        takeBacks_.send(server);
        server.send(call);
    }
}

/// The list of a batch that waits to be sent.
bool RedisStore::goesAlone(Batch& batch) {
    return !isolatedLogs_.isEmpty(ngx_current_msec) &&
           isolatedLogs_.areAlone(batch.waiters.front().checks, ngx_current_msec);
}

/// The time argument of a call: the time of this node, or "" for that of the server, which always tells how old a lease
/// is. Valid until the next call of this function.
std::string_view RedisStore::stamp(Algorithm algorithm) {
    if (settings_.clock != static_cast<ngx_uint_t>(Clock::Nginx) || takes(algorithm, Parameter::Lease)) {
        return "";
    }
    now_ = DecimalText(wallClockMs());
    return now_.view();
}

void RedisStore::complete(Batch& batch, StoreError error) {
    if (error != StoreError::None && !batch.asked.permits.empty()) {
        failPermits(batch);
    }
    while (!batch.waiters.isEmpty()) {
        Waiter& waiter = batch.waiters.front();
        if (error != StoreError::None && !waiter.apart) {
            countersOf(batch.hashSlot).failed(error);
        }
        if (batch.isInDoubt) {
            wakeWithoutReply(waiter, error);
        } else {
            waiter.detach();
            waiter.wake(waiter, error);
        }
    }
    while (Waiter* orphan = batch.orphans.popFront()) {
        finishOrphan(static_cast<Orphan&>(*orphan), error);
    }
    finishBatch(batch);
}

/// The server refuses the batch because of one of its logs. With several logs it is not known which: the requests ask
/// each separately, and count when that one is refused.
void RedisStore::refuse(Batch& batch, StoreError error) {
    const std::span<const Check> logs =
        batch.waiters.isEmpty() ? std::span<const Check>() : batch.waiters.front().checks;
    if (logs.size() > 1) {
        batch.waiters.forEach([](Waiter& waiter) { waiter.apart = true; });
    } else if (!logs.empty() && error == StoreError::Forbidden) {
        isolatedLogs_.addName(logs.front().key, ngx_current_msec);
    } else if (!logs.empty()) {
        isolatedLogs_.addLog(logs.front().key, ngx_current_msec);
    }
    complete(batch, error);
}

/// The batch is done; its follower is next.
void RedisStore::finishBatch(Batch& batch) {
    batches_.erase(batch);
    if (Batch* next = batch.follower) {
        next->last = batch.last;
        next->isFollower = true;
        batches_.insert(*next);
        open(*next);
    }
    batchObjects_.giveBack(batch);
}

/// A batch in flight keeps its position until its reply arrives or the connection is closed.
void RedisStore::expire() {
    while (!deadlines_.isEmpty() && hasPassed(deadlines_.front().deadline)) {
        Waiter& waiter = deadlines_.front();
        const Batch& batch = *waiter.batch;
        countersOf(batch.hashSlot).failed(StoreError::Timeout);
        Server* server = topology_->serverOf(batch.hashSlot);
        if (!batch.refusal.empty()) {
            refusals_.add(batch.refusedBy, batch.hashSlot, batch.refusal, ngx_current_msec);
            log_.failure(server == nullptr ? shownNameOf(settings_) : server->shownName(), "timed out", batch.refusal);
        } else if (server != nullptr) {
            server->timedOut(batch.sent ? batch.sentAt : waiter.deadline - settings_.timeout);
        } else {
            log_.failure(shownNameOf(settings_), "timed out", "no server to ask inside \"timeout\"");
        }
        if (waiter.isCancelled()) {
            static_cast<ListHook<WithDeadline>&>(waiter).unlink();
        } else if (batch.sent) {
            wakeWithoutReply(waiter, StoreError::Timeout);
        } else {
            waiter.detach();
            waiter.wake(waiter, StoreError::Timeout);
        }
    }
    topology_->forEachServer([](Server& server) { server.giveUpIfSilent(); });
    if (!deadlines_.isEmpty()) {
        deadline_.set(deadlines_.front().deadline - ngx_current_msec);
    }
    closeWhenUnused();
}

// ---- taking back

void RedisStore::takeBackLate(LateReply& late, std::span<const Check> checks, std::string_view unique) {
    switch (late.state) {
        case LateReply::State::Open:
            for (const Check& check : checks) {
                late.orphan->markLeaving(check.key);
            }
            if (!std::exchange(late.orphan->takesBack, true)) {
                takeBacks_.expect();
            }
            break;
        case LateReply::State::Logged:
            takeBack(checks, unique, late.loggedMs, late.loggedMs);
            break;
        case LateReply::State::Void:
            break;
        case LateReply::State::Unknown:
            takeBacks_.addUnseen(checks, unique);
            break;
    }
}

void RedisStore::takeBackPermit(const Check& check, const Permit& permit) {
    prefetch_.giveBack(check, permit);
}

void RedisStore::takeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs) {
    if (takes(checks.front().algorithm, Parameter::Lease)) {
        for (const Check& check : checks) {
            takeBacks_.release(check, unique);
        }
    } else if (checks.size() > 1 && areApart(checks)) {
        for (const Check& check : checks) {
            takeBacks_.add({&check, 1}, unique, loggedMs, takenMs);
        }
    } else {
        takeBacks_.add(checks, unique, loggedMs, takenMs);
    }
}

// ---- events of the servers

void RedisStore::serverReady(Server& server) {
    topology_->serverReady(server);
    takeBacks_.sendSoon();
    if (server.hasReplied()) {
        leases_.renewSoon(static_cast<ngx_msec_t>(ngx_random()) % (kSpreadMs + 1));
    }
    flush();
}

void RedisStore::serverDown(Server& server) {
    topology_->serverDown(server);
    openAgain(server.batches());
    openAgain(unplaced_);
    countLocally();
    if (deadlines_.isEmpty()) {
        deadline_.cancel();  // without a socket a quit is not reported, and the timer would delay it
    }
}

void RedisStore::serverLeaves(Server& server) {
    refusals_.erase(&server);
    deadlines_.forEach([&](const Waiter& waiter) {
        if (waiter.batch->refusedBy == &server) {
            waiter.batch->refusal.clear();
        }
    });
    openAgain(server.batches());
    takeBacks_.serverLeaves(server);
    while (Call* call = server.takeQueued()) {
        if (call->isTakeBack() || call->isRenewal) {
            lost(*call);
        } else {
            route(*call);
        }
    }
}

void RedisStore::mapChanged() {
    openAgain(unplaced_);
    takeBacks_.sendSoon();
}

/// Requests may end in the same turn and have entries to give back.
void RedisStore::workerQuits() {
    noteQuit();
    flush_.post();
}

void RedisStore::closeWhenUnused() {
    if (isLeaving()) {
        deadline_.cancel();
        takeBacks_.stopWaiting();
        topology_->forEachServer([](Server& server) { server.closeIfUnused(); });
    }
}

}  // namespace sliding_log
