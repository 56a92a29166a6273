#include "store/redis_store.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "limit/key.hpp"
#include "redis/addresses.hpp"
#include "redis/sentinel.hpp"

namespace sliding_log {

namespace {

/// LOADING, BUSY, TRYAGAIN, CLUSTERDOWN: repeated after this time, in ms, within the timeout.
constexpr ngx_msec_t kRepeatAfterMs = 10;

/// A call that is redirected more often than this in a row waits each time, since the servers disagree.
constexpr unsigned kMostRedirects = 5;

/// The number of kept take-backs sent to a server at a time: all workers of a fleet have some when it returns.
constexpr std::size_t kMostKeptUnderWay = 16;

/// How long permits wait, after their life has ended, for calls that are sent anyway, in ms.
constexpr ngx_msec_t kReturnAfterMs = 20;

/// When kept take-backs are tried again, in ms, unless a server becomes ready earlier.
constexpr std::uint64_t kSendKeptMinMs = 10;
constexpr std::uint64_t kSendKeptMaxMs = 1000;

/// Snapshots fail, or there are too few replicas.
bool refusesAllWrites(std::string_view answer) {
    return answer.starts_with("MISCONF") || answer.starts_with("NOREPLICAS");
}

/// An error of a batch, from its script, with one of its logs.
bool mayBeOfOneLog(StoreError error, std::string_view message) {
    return error == StoreError::WrongType || error == StoreError::OutOfMemory ||
           (error == StoreError::Refused && !isOfScripts(message) && !refusesAllWrites(message));
}

/// True if a call that a request waits for asks several logs.
bool hasSeveralLogs(const Call& call) {
    return call.batches.size() > 1 || call.batches.front()->waiters.front().checks.size() > 1;
}

/// How long an entry may count after its time: a counter also weighs the previous window, and a bucket may take several
/// windows to fill up.
std::int64_t lastsMs(const Check& check) {
    constexpr std::int64_t kMostMs = std::int64_t{366} * 24 * 3600 * 1000;
    const std::int64_t full = std::max<std::int64_t>(check.limit, 1);
    std::int64_t windows = 1;
    switch (rowOf(check.algorithm).lasts) {
        case Lasts::Window:
        case Lasts::Period:
        case Lasts::Lease:
            break;
        case Lasts::NextWindow:
            windows = 2;
            break;
        case Lasts::Refill:
            windows = (check.burst + check.owed() + full - 1) / full;
            break;
    }
    return windows > kMostMs / check.windowMs ? kMostMs : windows * check.windowMs;
}

/// True if the server did not execute a take-back which it, or another one, may execute later.
bool isUndone(StoreError error, std::string_view answer) {
    switch (error) {
        case StoreError::TryAgain:
        case StoreError::NotMaster:
        case StoreError::Moved:
        case StoreError::Ask:
        case StoreError::NoScript:
        case StoreError::OutOfMemory:
            return true;
        case StoreError::None:
        case StoreError::Down:
        case StoreError::Timeout:
        case StoreError::WrongType:
        case StoreError::Forbidden:
        case StoreError::Refused:
        case StoreError::Unexpected:
            break;
    }
    return refusesAllWrites(answer);
}

/// The name of the store in messages that are not about one of its servers.
std::string_view nameOf(const RedisSettings& settings) {
    return view(settings.mode == static_cast<ngx_uint_t>(Mode::Sentinel)
                    ? settings.master
                    : static_cast<const ServerSettings*>(settings.servers.elts)->text);
}

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
      sendKeptAfter_(kSendKeptMinMs, kSendKeptMaxMs),
      sendKeptTimer_(
          this, [](void* self) { static_cast<RedisStore*>(self)->sendKept(); }, Timer::Kind::Chore, log),
      takeBackTimer_(
          this, [](void* self) { static_cast<RedisStore*>(self)->tryToQuit(); }, Timer::Kind::Work, log),
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
    latestReleases_.fill(nullptr);
    while (Call* call = releases_.popFront()) {
        loseTakeBack(*call, "the worker quits");
    }
    loseKept("the worker quits");
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
    takeBackWriter_.freeMemory();
    reply_ = {};
    std::size_t passing = calls_.freeUnused() + batchObjects_.freeUnused() + orphans_.freeUnused();
    deadlines_.forEach([&](const Waiter&) { passing++; });
    return passing;
}

/// The counters of the server of this hash slot.
ServerCounters& RedisStore::countersOf(std::uint16_t hashSlot) {
    Server* server = topology_->serverOf(hashSlot);
    return server == nullptr ? unplacedCounters_ : server->counters();
}

RedisStore::Reception RedisStore::ask(std::span<const Check> checks, std::string_view unique, ngx_msec_t leftMs,
                                      Waiter& waiter) {
    waiter.permitted = false;
    if (!waiter.permits.empty() && prefetch_.use(checks, waiter)) {
        return Reception::Permitted;
    }
    const Signature& signature = signatureOf(checks);
    const DenialState denialState = knownDenials_.find(signature, ngx_current_msec, waiter.verdicts);
    if (denialState == DenialState::Holds) {
        return Reception::KnownDenied;
    }
    if (checks.size() > 1 && areApart(checks)) {
        return Reception::Apart;
    }
    const bool isLate = leftMs == 0;
    const bool canAsk = !isLate && topology_->canBeAsked(checks.front().hashSlot);
    if (denialState == DenialState::Due && (!canAsk || !knownDenials_.claim(signature, ngx_current_msec))) {
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
    Batch& batch = batchFor(checks, signature);
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
    return knownDenials_.find(signatureOf(checks), ngx_current_msec, verdicts);
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
    noteTakeBack();
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
        takeBackUnseen(leavers, orphan.unique);
    }
    if (std::exchange(orphan.takesBack, false)) {
        takeBacks_--;
    }
    orphans_.giveBack(orphan);
}

void RedisStore::takeBackLate(LateReply& late, std::span<const Check> checks, std::string_view unique) {
    switch (late.state) {
        case LateReply::State::Open:
            for (const Check& check : checks) {
                late.orphan->markLeaving(check.key);
            }
            if (!std::exchange(late.orphan->takesBack, true)) {
                noteTakeBack();
            }
            break;
        case LateReply::State::Logged:
            takeBack(checks, unique, late.loggedMs, late.loggedMs);
            break;
        case LateReply::State::Void:
            break;
        case LateReply::State::Unknown:
            takeBackUnseen(checks, unique);
            break;
    }
}

/// Entries that may be in the logs, at an unknown time. They can only be found by the unique name of the request; an id
/// may belong to another request, too. Not sent at once: the server may still have to read the lost calls.
void RedisStore::takeBackUnseen(std::span<const Check> checks, std::string_view unique) {
    constexpr std::uint64_t kAnyTime = std::uint64_t{1} << 53;
    for (const Check& check : checks) {
        if (rowOf(check.algorithm).namesEntries && check.id.empty()) {
            keep(newTakeBack({&check, 1}, unique, kAnyTime, 0, check.delayMs));
        } else {
            tellLost(check.hashSlot, "its answer was lost");
        }
    }
}

void RedisStore::takeBackPermit(const Check& check, const Permit& permit) {
    prefetch_.giveBack(check, permit);
}

void RedisStore::takeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs) {
    if (takes(checks.front().algorithm, Parameter::Lease)) {
        for (const Check& check : checks) {
            release(check, unique);
        }
        return;
    }
    if (checks.size() > 1 && areApart(checks)) {
        for (const Check& check : checks) {
            takeBack({&check, 1}, unique, loggedMs, takenMs);
        }
        return;
    }
    Call& call = newTakeBack(checks, unique, loggedMs, takenMs, static_cast<std::int64_t>(loggedMs - takenMs));
    Server* server = serverFor(call);
    if (server != nullptr && server->isWell()) {
        sendTakeBack(*server, call);
    } else {
        keep(call);
    }
}

/// `aheadMs`: how much later than now the time of the entries may be.
Call& RedisStore::newTakeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                              std::uint64_t takenMs, std::int64_t aheadMs) {
    Call& call = calls_.take();
    call.leftLogs.clear();
    call.logs = checks.size();
    call.settles = std::ranges::any_of(checks, &Check::isSettled);
    std::int64_t lasts = 0;
    for (const Check& check : checks) {
        if (check.owed() == 0) {
            call.leftLogs.push_back(Signature::hashOfLog(check.key));
        }
        lasts = std::max(lasts, lastsMs(check));
    }
    call.until = ngx_current_msec + static_cast<ngx_msec_t>(lasts + aheadMs);
    takeBackWriter_.writeTakeBack(call, checks, unique, loggedMs, takenMs, stamp(checks.front().algorithm));
    noteTakeBack();
    return call;
}

// ---- take-backs that are kept

/// A take-back was added.
void RedisStore::noteTakeBack() {
    noteQuit();
    takeBacks_++;
    takeBacksUntil_ = ngx_current_msec + settings_.timeout;
    if (!takeBackTimer_.isSet()) {
        takeBackTimer_.set(settings_.timeout);
    }
}

/// The worker was told to quit, which is not reported without a connection: the time for its take-backs starts now.
void RedisStore::noteQuit() {
    if (ngx_exiting != 0 && !quitting_) {
        quitting_ = true;
        takeBacksUntil_ = ngx_current_msec + settings_.timeout;
        endPermits(true);
        sendKeptSoon();
    }
}

bool RedisStore::hasTakeBacks() const {
    return takeBacks_ > 0 && !(quitting_ && hasPassed(takeBacksUntil_));
}

/// The timer of kept take-backs.
void RedisStore::tryToQuit() {
    noteQuit();
    if (!hasTakeBacks()) {
        loseKept("the worker quits");
        closeWhenUnused();
    } else if (hasPassed(takeBacksUntil_)) {
        takeBackTimer_.set(settings_.timeout);
    } else {
        takeBackTimer_.set(takeBacksUntil_ - ngx_current_msec);
    }
}

/// The server of the hash slot of the call, connected or connecting; nullptr if there is none.
Server* RedisStore::serverFor(const Call& call) {
    return !dying_ && topology_->canBeAsked(call.hashSlot) ? topology_->serverOf(call.hashSlot) : nullptr;
}

void RedisStore::sendTakeBack(Server& server, Call& call) {
    knownDenials_.entriesLeave(call.leftLogs);
    server.send(call);
}

/// Redis cannot execute it now.
void RedisStore::keep(Call& call) {
    if (dying_ || !hasTakeBacks()) {
        loseTakeBack(call, "the worker quits");
        return;
    }
    call.asking = false;
    call.scriptMisses = call.repetitions = 0;
    kept_.keep(call);
    while (Call* surplus = kept_.surplus()) {
        loseTakeBack(*surplus, "too many are owed");
    }
    if (!sendKeptTimer_.isSet()) {
        sendKeptTimer_.set(sendKeptAfter_.next(static_cast<std::uint64_t>(ngx_random())));
    }
}

/// A server is ready again. All workers learn of it at the same time, so each waits a random time, and at least until
/// the server has read what lost connections still hold: requests that timed out, whose entries have to be taken back.
void RedisStore::sendKeptSoon() {
    if (!kept_.isEmpty()) {
        sendKeptAfter_.reset();
        const ngx_msec_t least = quitting_ ? 0 : std::min<ngx_msec_t>(kSpreadMs, settings_.timeout / 2);
        sendKeptTimer_.set(least + static_cast<ngx_msec_t>(ngx_random()) % (least + 1));
    }
}

/// Sends kept take-backs to each server that is ready.
void RedisStore::sendKept() {
    noteQuit();
    topology_->forEachServer([this](Server& server) { kept_.putBack(server.kept()); });
    List<Call, Queued> again;
    while (Call* call = kept_.take()) {
        Server* server = serverFor(*call);
        if (hasPassed(call->until)) {
            kept_.finished(*call);
            giveBack(*call);
        } else {
            (server != nullptr && server->hasReplied() ? server->kept() : again).pushBack(*call);
        }
    }
    kept_.putBack(again);
    topology_->forEachServer([this](Server& server) { sendKept(server); });
    if (!kept_.isEmpty()) {
        sendKeptTimer_.set(sendKeptAfter_.next(static_cast<std::uint64_t>(ngx_random())));
    }
    closeWhenUnused();
}

/// A server with timeouts must first answer.
void RedisStore::sendKept(Server& server) {
    while (server.hasReplied() && server.keptUnderWay() < (server.isWell() ? kMostKeptUnderWay : 1)) {
        Call* call = server.kept().popFront();
        if (call == nullptr) {
            return;
        }
        kept_.finished(*call);
        call->wasKept = true;
        server.keptUnderWay()++;
        sendTakeBack(server, *call);
    }
}

/// It was answered, or its connection has ended.
void RedisStore::backFrom(Server& server, Call& call) {
    if (call.wasKept) {
        call.wasKept = false;
        server.keptUnderWay()--;
    }
}

void RedisStore::takenBack(Call& call, const redisReply& reply, StoreError error) {
    Server& server = *call.server;
    const std::string_view answer = replyText(reply);
    backFrom(server, call);
    noteQuit();
    if (error == StoreError::None) {
        if (checkTakeBack(reply, call.logs) != StoreError::None) {
            server.closeAsUnreliable();
            loseTakeBack(call, "unexpected reply");
            return;
        }
        sendKeptAfter_.reset();
        giveBack(call);
        sendKept(server);
        return;
    }
    if (error == StoreError::Moved || error == StoreError::Ask) {
        Server* target = redirectedBy(reply, server, error);
        if (target != nullptr && target->canBeAsked() && target->hasReplied() && call.repetitions++ < kMostRedirects) {
            call.asking = error == StoreError::Ask;
            target->send(call);
            return;
        }
    } else {
        log_.trouble(NGX_LOG_ERR, server.shownName(), "answered", answer);
    }
    if (!isUndone(error, answer)) {
        loseTakeBack(call, answer);
        return;
    }
    if (error == StoreError::NotMaster) {
        server.leaveAsReadOnly();
    } else if (error == StoreError::TryAgain && !answer.starts_with("TRYAGAIN")) {
        topology_->suspect();
    }
    kept_.putBack(server.kept());  // they would fail, too
    keep(call);
}

/// No reply will arrive.
void RedisStore::lost(Call& call) {
    if (call.isRenewal) {
        renewalLost(call);
        return;
    }
    if (!call.isTakeBack()) {
        failed(call, StoreError::Down);
        return;
    }
    backFrom(*call.server, call);
    if (call.isOnWire && !call.isRepeatable()) {
        loseTakeBack(call, "the connection was lost");
    } else {
        keep(call);
    }
}

void RedisStore::loseKept(std::string_view why) {
    topology_->forEachServer([this](Server& server) { kept_.putBack(server.kept()); });
    while (Call* call = kept_.take()) {
        kept_.finished(*call);
        loseTakeBack(*call, why);
    }
}

/// Its entries stay until they leave the window.
void RedisStore::loseTakeBack(Call& call, std::string_view why) {
    tellLost(call.hashSlot, why, call.settles);
    giveBack(call);
}

void RedisStore::tellLost(std::uint16_t hashSlot, std::string_view why, bool settles) {
    (dying_ ? unplacedCounters_ : countersOf(hashSlot)).lostTakeBacks.add();
    log_.trouble(
        NGX_LOG_ERR, shownNameOf(settings_, nameOf(settings_)),
        settles ? "the cost of a request could not be settled" : "a request could not be taken back out of its log",
        why);
}

// ---- batches

/// The batch that the request joins: the last one with the same checks, if it has not been sent and has room.
Batch& RedisStore::batchFor(std::span<const Check> checks, const Signature& signature) {
    Batch* first = batches_.find(signature);
    if (first == nullptr) {
        first = &newBatch(checks, signature);
        first->last = first;
        batches_.insert(*first);
        open(*first);
    } else if (first->last->sent || first->last->isFull()) {
        Batch& next = newBatch(checks, signature);
        first->last->follower = &next;
        first->last = &next;
    }
    return *first->last;
}

Batch& RedisStore::newBatch(std::span<const Check> checks, const Signature& signature) {
    Batch& batch = batchObjects_.take();
    batch.signature = signature;
    batch.requests = 0;
    batch.workOfLogs = workOfLogs(checks.size());
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

/// At the end of an event-loop turn: sends all its checks in as few calls as possible.
void RedisStore::flush() {
    sendReleases();
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

// ---- calls

/// Sends the call to the server that serves its hash slot.
void RedisStore::route(Call& call) {
    call.asking = false;
    if (!call.isWaitedFor() || !topology_->canBeAsked(call.hashSlot)) {
        failed(call, StoreError::Down);
    } else if (Server* server = topology_->serverOf(call.hashSlot)) {
        server->send(call);
    } else {
        repeatSoon(call);
    }
}

void RedisStore::callReplied(Call& call, const redisReply& reply, StoreError error) {
    if (!refusals_.isEmpty() && error != StoreError::TryAgain && error != StoreError::Moved) {
        refusals_.served(call.server, call.hashSlot, ngx_current_msec);
    }
    if (call.isTakeBack()) {
        takenBack(call, reply, error);
        closeWhenUnused();
        return;
    }
    if (call.isRenewal) {
        renewalReplied(call, reply, error);
        closeWhenUnused();
        return;
    }
    if (call.readsRecord &&
        (error == StoreError::None || error == StoreError::WrongType || error == StoreError::Forbidden)) {
        recordRead(call, replyText(reply));
        return;
    }
    switch (error) {
        case StoreError::None:
            applyReply(call, reply);
            return;
        case StoreError::TryAgain:
        case StoreError::NotMaster:
        case StoreError::Moved:
        case StoreError::Ask:
            if (call.isWaitedFor()) {
                call.repetitions++;
                repeat(call, reply, error);
                return;
            }
            break;
        case StoreError::Down:
        case StoreError::Timeout:
        case StoreError::NoScript:
        case StoreError::OutOfMemory:
        case StoreError::WrongType:
        case StoreError::Forbidden:
        case StoreError::Refused:
        case StoreError::Unexpected:
            log_.failure(call.server->shownName(), "answered", replyText(reply));
            if (isOfKeys(replyText(reply)) && !call.isTakeBack()) {
                askApart(call, error);
                return;
            }
    }
    failed(call, error);
}

/// Nothing was done for such a call: the same or another server may execute it.
void RedisStore::repeat(Call& call, const redisReply& reply, StoreError error) {
    Server& server = *call.server;
    if (error == StoreError::NotMaster) {
        log_.trouble(NGX_LOG_ERR, server.shownName(), "answered", replyText(errorOfCall(reply)));
        server.leaveAsReadOnly();
        server.send(call);
        return;
    }
    if (error == StoreError::TryAgain) {
        const bool isUnderWay = isOfSlotUnderWay(replyText(reply));
        if (!isUnderWay) {
            topology_->suspect();
        }
        if (isUnderWay && !call.isTakeBack() && hasSeveralLogs(call)) {
            isolatedLogs_.addSlot(call.hashSlot, ngx_current_msec);
            askApart(call, error);
        } else if (isOfSlots(replyText(reply))) {
            waitOut(call, replyText(reply), error);
        } else {
            repeatSoon(call);
        }
        return;
    }
    if (error == StoreError::Ask && call.hasOverride && !call.readsRecord && !call.isTold) {
        if (hasSeveralLogs(call)) {
            isolatedLogs_.addSlot(call.hashSlot, ngx_current_msec);
            askApart(call, error);
            return;
        }
        Batch& batch = *call.batches.front();
        calls_.giveBack(call);
        readRecord(batch);
        return;
    }
    Server* target = redirectedBy(reply, server, error);
    if (target == nullptr || !target->canBeAsked()) {
        log_.failure(server.shownName(), "answered", replyText(reply));
        failed(call, StoreError::Refused);
    } else if (call.repetitions > kMostRedirects) {
        waitOut(call, replyText(reply), error);
    } else {
        call.asking = error == StoreError::Ask;
        target->send(call);
    }
}

/// The server that MOVED or ASK names; nullptr if there is none.
Server* RedisStore::redirectedBy(const redisReply& reply, const Server& from, StoreError error) {
    const std::optional<Redirect> redirect = readRedirect(replyText(reply));
    return redirect ? topology_->follow(*redirect, from, error == StoreError::Moved) : nullptr;
}

void RedisStore::repeatSoon(Call& call) {
    queued_.pushBack(call);
    if (!repeat_.isSet()) {
        repeat_.set(kRepeatAfterMs);
    }
}

void RedisStore::repeatQueued() {
    List<Call, Queued> again;
    queued_.moveTo(again);
    while (Call* call = again.popFront()) {
        route(*call);
    }
}

/// Repeats the call in a moment, unless a request has already waited in vain for another reply than this one.
void RedisStore::waitOut(Call& call, std::string_view answer, StoreError error) {
    if (refusals_.isLasting(call.server, call.hashSlot, answer, ngx_current_msec)) {
        log_.failure(call.server->shownName(), "answered", answer);
        failed(call, error);
        return;
    }
    for (Batch* batch : call.batches) {
        batch->refusedBy = call.server;
        batch->refusal = answer;
    }
    repeatSoon(call);
}

/// Nothing was done for the call, possibly because of one of its logs: each batch gets a call of its own; if it already
/// has one, its requests ask each log separately.
void RedisStore::askApart(Call& call, StoreError error) {
    if (call.batches.size() == 1) {
        refuse(*call.batches.front(), error);
        call.batches.clear();
    }
    for (Batch* batch : call.batches) {
        if (!renew(*batch)) {
            continue;
        }
        Call& own = calls_.take();
        writer_.begin(own, *batch, stamp(batch->algorithm));
        writer_.add(*batch);
        writer_.finish();
        own.isPart = true;
        route(own);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

/// The batch was not decided and is written again, for the requests that still wait; false if there is none.
bool RedisStore::renew(Batch& batch) {
    while (Waiter* orphan = batch.orphans.popFront()) {
        finishOrphan(static_cast<Orphan&>(*orphan), StoreError::TryAgain);
    }
    batch.requests = 0;
    batch.waiters.forEach([&](Waiter&) { batch.requests++; });
    if (batch.requests == 0) {
        finishBatch(batch);
        return false;
    }
    return true;
}

/// The slot of the batch is under way, so that its log and the record of that may be on two nodes: the record is read
/// first, from the one that has it.
void RedisStore::readRecord(Batch& batch) {
    if (renew(batch)) {
        Call& call = calls_.take();
        CallWriter::writeReading(call, batch);
        route(call);
    }
}

/// `record`: its text, "" if there is none, or an error that the script tells from a record.
void RedisStore::recordRead(Call& call, std::string_view record) {
    if (renew(*call.batches.front())) {
        writer_.tell(call, record, stamp(call.algorithm));
        route(call);
    } else {
        calls_.giveBack(call);
        closeWhenUnused();
    }
}

void RedisStore::applyReply(Call& call, const redisReply& reply) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != call.batches.size()) {
        call.server->closeAsUnreliable();
        failed(call, StoreError::Unexpected);
        return;
    }
    for (std::size_t i = 0; i < call.batches.size(); i++) {
        applyReply(*call.server, *call.batches[i], *reply.element[i]);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

void RedisStore::applyReply(Server& server, Batch& batch, const redisReply& reply) {
    List<Waiter, InBatch>& any = batch.waiters.isEmpty() ? batch.orphans : batch.waiters;
    const std::span<const Check> checks = any.isEmpty() ? std::as_const(batch.asked.checks).all() : any.front().checks;
    const StoreError error =
        checks.empty() ? errorIn(reply) : reply_.read(reply, batch.requests, checks, batch.asked.permits);
    if (error == StoreError::Unexpected) {
        batch.isInDoubt = true;
        server.closeAsUnreliable();
    } else if (error == StoreError::TryAgain && isOfOverride(replyText(reply))) {
        if (checks.size() == 1) {
            readRecord(batch);
        } else {
            isolatedLogs_.addSlot(batch.hashSlot, ngx_current_msec);
            refuse(batch, error);
        }
        return;
    } else if (error != StoreError::None) {
        log_.failure(server.shownName(), "answered", replyText(reply));
        if (mayBeOfOneLog(error, replyText(reply))) {
            refuse(batch, error);
            return;
        }
    } else if (!checks.empty()) {
        if (batch.notesPermits) {
            learnPermits(server, batch, checks);
        }
        const auto tell = [&](Waiter& waiter) {
            reply_.writeVerdicts(waiter.position, waiter.verdicts);
            waiter.loggedMs = reply_.loggedMs(waiter.position);
        };
        batch.waiters.forEach(tell);
        batch.orphans.forEach(tell);
        if (!stamp(batch.algorithm).empty()) {
            tellSkew(server, batch);
        }
        learn(batch);
    }
    complete(batch, error);
}

/// The latest decision of a log can only be ahead of the clock of this node if the clock of another node is ahead of
/// it.
void RedisStore::tellSkew(const Server& server, Batch& batch) {
    const std::int64_t ms = reply_.nowMs() - wallClockMs();
    if (ms <= 0 || batch.waiters.isEmpty()) {
        return;
    }
    const Check& shortest = *std::ranges::min_element(batch.waiters.front().checks, {}, &Check::windowMs);
    if (ms > shortest.windowMs / 10) {
        log_.clockIsBehind(server.shownName(), ms, nameIn(shortest.key.substr(settings_.prefix.len)));
    }
}

/// The last request of a batch is the one that is denied if any is.
void RedisStore::learn(Batch& batch) {
    if (batch.waiters.isEmpty()) {
        return;
    }
    const Waiter& last = batch.waiters.back();
    const bool isDenied = !std::ranges::all_of(last.verdicts, &Verdict::hasRoom);
    if (!isDenied) {
        if (batch.refreshes) {
            knownDenials_.erase(batch.signature);
        }
    } else if (std::ranges::none_of(last.checks, &Check::countsAll) && !takes(batch.algorithm, Parameter::Lease)) {
        knownDenials_.publish(batch.signature, batch.generation, batch.sentAt, last.checks, last.verdicts);
    }
}

void RedisStore::learnPermits(Server& server, const Batch& batch, std::span<const Check> checks) {
    server.counters().permits.add(prefetch_.learn(batch, checks, reply_));
    noteQuit();
    if (quitting_) {
        endPermits(true);  // of a call that was in flight then
    } else if (const auto endMs = prefetch_.nextEndMs(); endMs && !permitTimer_.isSet()) {
        permitTimer_.set(static_cast<ngx_msec_t>(*endMs) + kReturnAfterMs);
    }
}

/// Permits whose life has ended are returned, or all of this worker.
void RedisStore::endPermits(bool all) {
    prefetch_.endLots(all);
    if (const auto endMs = prefetch_.nextEndMs()) {
        permitTimer_.set(static_cast<ngx_msec_t>(*endMs) + kReturnAfterMs);
    }
}

/// While the batch has waited for another one, that may have got permits for its requests.
void RedisStore::servePermits(Batch& batch) {
    List<Waiter, InBatch> waiting;
    batch.waiters.moveTo(waiting);
    while (Waiter* waiter = waiting.popFront()) {
        if (waiter->permits.empty() || !prefetch_.use(waiter->checks, *waiter)) {
            batch.waiters.pushBack(*waiter);
            waiting.moveTo(batch.waiters);
            return;
        }
        waiter->detach();
        waiter->wake(*waiter, StoreError::None);
    }
}

/// The permits that the batch asked for may have been logged, and nobody will use them.
void RedisStore::failPermits(Batch& batch) {
    prefetch_.fail(batch);
    if (!batch.isInDoubt) {
        return;
    }
    const std::span<const Check> checks = batch.asked.checks.all();
    for (std::size_t i = 0; i < checks.size(); i++) {
        Check check = checks[i];
        check.cost *= batch.asked.of(i);
        check.delayMs = check.permitLifeMs;  // so far ahead are the entries
        if (check.cost > 0) {
            takeBackUnseen({&check, 1}, batch.asked.name.view());
        }
    }
}

void RedisStore::failed(Call& call, StoreError error) {
    for (Batch* batch : call.batches) {
        batch->isInDoubt = call.isOnWire || error == StoreError::Unexpected;
        complete(*batch, error);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

/// The take-back has ended. Known denials that were decided before it may have been learned since it was sent.
void RedisStore::giveBack(Call& call) {
    takeBacks_--;
    knownDenials_.entriesLeave(call.leftLogs);
    calls_.giveBack(call);
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
            log_.failure(server == nullptr ? shownNameOf(settings_, nameOf(settings_)) : server->shownName(),
                         "timed out", batch.refusal);
        } else if (server != nullptr) {
            server->timedOut(batch.sent ? batch.sentAt : waiter.deadline - settings_.timeout);
        } else {
            log_.failure(shownNameOf(settings_, nameOf(settings_)), "timed out", "no server to ask inside \"timeout\"");
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

// ---- events of the servers

void RedisStore::serverReady(Server& server) {
    topology_->serverReady(server);
    sendKeptSoon();
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
    kept_.putBack(server.kept());
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
    sendKeptSoon();
}

/// Requests may end in the same turn and have entries to give back.
void RedisStore::workerQuits() {
    noteQuit();
    flush_.post();
}

void RedisStore::closeWhenUnused() {
    if (isLeaving()) {
        deadline_.cancel();
        takeBackTimer_.cancel();
        topology_->forEachServer([](Server& server) { server.closeIfUnused(); });
    }
}

}  // namespace sliding_log
