#include "store/take_backs.hpp"

#include <algorithm>
#include <utility>

#include "node/signature.hpp"
#include "redis/reply.hpp"
#include "store/server_queues.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// When kept take-backs are tried again, in ms, unless a server becomes ready earlier.
constexpr std::uint64_t kSendMinMs = 10;
constexpr std::uint64_t kSendMaxMs = 1000;

/// Why some are lost.
constexpr std::string_view kQuits = "the worker quits";

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
    return isOfAllWrites(answer) || isOfEmptiedLog(answer);
}

}  // namespace

TakeBacks::TakeBacks(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, KnownDenials& knownDenials,
                     const IsolatedLogs& isolatedLogs, ngx_log_t* nginxLog)
    : store_(store),
      settings_(settings),
      log_(log),
      knownDenials_(knownDenials),
      isolatedLogs_(isolatedLogs),
      quitDelay_(*this, store, settings, nginxLog),
      sendAfter_(kSendMinMs, kSendMaxMs),
      sendTimer_(
          this, [](void* self) { static_cast<TakeBacks*>(self)->sendKept(); }, Timer::Kind::Chore, nginxLog) {}

std::size_t TakeBacks::freeUnused() {
    writer_.freeMemory();
    return takeBacks_.freeUnused() + calls_.freeUnused();
}

// ---- what is added

void TakeBacks::add(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                    std::uint64_t takenMs) {
    const bool areReleased = traitsOf(checks.front().algorithm).hasLeases;
    const bool areApart = checks.size() > 1 && isolatedLogs_.areApart(checks, nowMs());
    const std::size_t together = areReleased || areApart ? 1 : checks.size();
    for (; !checks.empty(); checks = checks.subspan(together)) {
        if (areReleased) {
            release(checks.front(), unique);
        } else {
            sendOrKeep(newTakeBack(checks.first(together), unique, loggedMs, takenMs,
                                   static_cast<std::int64_t>(loggedMs - takenMs)));
        }
    }
}

/// Not sent at once: the server may still have to read the lost calls.
void TakeBacks::addUnseen(std::span<const Check> checks, std::string_view unique) {
    constexpr std::uint64_t kAnyTime = std::uint64_t{1} << 53;
    for (const Check& check : checks) {
        if (rowOf(check.algorithm).namesEntries && check.id.empty()) {
            keep(newTakeBack({&check, 1}, unique, kAnyTime, 0, check.delayMs));
        } else {
            tellLost(check.hashSlot, entriesOf(check), "its answer was lost");
        }
    }
}

void TakeBacks::release(const Check& check, std::string_view unique) {
    if (check.cost == 0) {
        return;
    }
    TakeBack& takeBack = takeBacks_.take();
    takeBack.assign({&check, 1}, 0, 0);
    TakeBackWriter::writeRelease(takeBack, check, unique);
    expect();
    sendOrKeep(takeBack);
}

/// `aheadMs`: how much later than now the time of the entries may be.
TakeBack& TakeBacks::newTakeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                                 std::uint64_t takenMs, std::int64_t aheadMs) {
    TakeBack& takeBack = takeBacks_.take();
    takeBack.assign(checks, loggedMs, aheadMs);
    for (const Check& check : checks) {
        if (check.owed() == 0) {
            takeBack.leftLogs.push_back(Signature::hashOfLog(check.key));
        }
    }
    writer_.write(takeBack, checks, unique, loggedMs, takenMs);
    expect();
    return takeBack;
}

// ---- a worker that quits

void TakeBacks::workerQuits() {
    quitDelay_.workerQuits();
    sendSoon();
}

void TakeBacks::quitDelayEnded() {
    loseKept(kQuits);
}

// ---- those that wait

/// The server of its hash slot, connected or connecting; nullptr if there is none.
Server* TakeBacks::serverFor(const TakeBack& takeBack) {
    return store_.canBeAsked(takeBack.hashSlot) ? store_.serverOf(takeBack.hashSlot) : nullptr;
}

void TakeBacks::sendOrKeep(TakeBack& takeBack) {
    Server* server = isDying_ ? nullptr : serverFor(takeBack);
    if (server == nullptr || !server->isWell()) {
        keep(takeBack);
    } else {
        keepBehind(*server, takeBack);
        store_.flushSoon();
    }
}

/// Until the end of the turn, or until earlier ones are answered.
void TakeBacks::keepBehind(Server& server, TakeBack& takeBack) {
    if (!hasAny()) {
        lose(takeBack, kQuits);
        return;
    }
    ServerQueues& queues = queuesOf(server);
    kept_.keep(takeBack, queues.listOf(takeBack));
    while (kept_.areTooMany()) {
        loseOldest(queues.listOfOldest());
    }
}

void TakeBacks::loseOldest(List<TakeBack, Kept>& kept) {
    TakeBack& oldest = *kept.popFront();
    kept_.finished(oldest);
    lose(oldest, "too many are owed");
}

/// Redis cannot execute it now.
void TakeBacks::keep(TakeBack& takeBack) {
    if (isDying_ || !hasAny()) {
        lose(takeBack, kQuits);
        return;
    }
    kept_.keep(takeBack);
    while (kept_.areTooMany()) {
        loseOldest(kept_.waiting());
    }
    tryLater();
}

void TakeBacks::tryLater() {
    if (!sendTimer_.isSet()) {
        sendTimer_.set(sendAfter_.next(randomNumber()));
    }
}

void TakeBacks::keepAll(TakeBackCall& call) {
    for (TakeBack* takeBack : call.takeBacks) {
        keep(*takeBack);
    }
    calls_.recycle(call);
}

/// All workers learn of a server that is ready again at the same time, so each waits a random time, and at least until
/// the server has read what lost connections still hold: requests that timed out, whose entries have to be taken back.
void TakeBacks::sendSoon() {
    if (!kept_.isEmpty()) {
        sendAfter_.reset();
        const ngx_msec_t least = store_.isQuitting() ? 0 : std::min<ngx_msec_t>(kSpreadMs, settings_.timeout / 2);
        sendTimer_.set(least + randomNumber() % (least + 1));
    }
}

/// Those of the server wait again.
void TakeBacks::putBack(Server& server) {
    kept_.putBack(queuesOf(server).releases);
    kept_.putBack(queuesOf(server).otherTakeBacks);
}

void TakeBacks::serverLeaves(Server& server) {
    putBack(server);
    sendSoon();
}

/// The timer: sends to each server that is ready.
void TakeBacks::sendKept() {
    store_.noteQuit();
    Topology& topology = store_.topology();
    topology.forEachServer([this](Server& server) { putBack(server); });
    List<TakeBack, Kept> again;
    while (TakeBack* takeBack = kept_.take()) {
        Server* server = serverFor(*takeBack);
        if (hasPassed(takeBack->until)) {
            kept_.finished(*takeBack);
            finish(*takeBack);
        } else {
            const bool goes = server != nullptr && server->hasReplied();
            (goes ? queuesOf(*server).listOf(*takeBack) : again).pushBack(*takeBack);
        }
    }
    kept_.putBack(again);
    topology.forEachServer([this](Server& server) { send(server); });
    if (!kept_.isEmpty()) {
        tryLater();
    }
    store_.closeWhenUnused();
}

// ---- calls

/// So many of this list may go.
struct TakeBacks::Turn {
    List<TakeBack, Kept>* list;
    std::size_t room;
};

/// A server with timeouts must first answer.
TakeBacks::Turn TakeBacks::turnAt(Server& server) {
    ServerQueues& queues = queuesOf(server);
    const Pace& pace = queues.pace;
    const std::size_t one = pace.isIdle() ? 1 : 0;
    const auto turnOf = [&](List<TakeBack, Kept>& list, std::size_t room) {
        return Turn{&list, list.isEmpty() ? 0 : server.isWell() ? room : one};
    };
    const Turn release = turnOf(queues.releases, pace.roomForReleases());
    const Turn other = turnOf(queues.otherTakeBacks, pace.room());
    return other.room == 0 || (release.room > 0 && !queues.wasRelease) ? release : other;
}

void TakeBacks::send(Server& server) {
    ServerQueues& queues = queuesOf(server);
    while (queues.hasTakeBacks() && server.hasReplied()) {
        const Turn turn = turnAt(server);
        if (turn.room == 0) {
            return;
        }
        const std::span<TakeBack* const> together = kept_.takeTogether(*turn.list, std::min(turn.room, Pace::kMost));
        queues.wasRelease = together.front()->isRelease;
        TakeBackCall& call = calls_.take(*this);
        call.write(together, store_.stamp(together.front()->algorithm));
        send(server, call);
    }
    if (queues.hasTakeBacks()) {  // its connection has ended since they were added
        putBack(server);
        tryLater();
    }
}

void TakeBacks::send(Server& server, TakeBackCall& call) {
    for (const TakeBack* each : call.takeBacks) {
        knownDenials_.entriesLeave(each->leftLogs);
    }
    call.isPaced = true;
    queuesOf(server).pace.sent(call.weight());
    server.send(call);
}

/// The call was answered, or its connection has ended.
void TakeBacks::ended(Server& server, TakeBackCall& call) {
    if (std::exchange(call.isPaced, false)) {
        queuesOf(server).pace.ended(call.weight());
    }
}

void TakeBacks::answered(TakeBackCall& call, const redisReply& reply, StoreError error) {
    Server& server = *call.server;
    const std::string_view answer = replyText(reply);
    ended(server, call);
    store_.noteQuit();
    if (error == StoreError::None) {
        repliedTo(call, reply);
    } else if (error != StoreError::Moved && error != StoreError::Ask) {
        if (error == StoreError::NotMaster) {
            store_.leaveAsReadOnly(server, reply);
        } else {
            log_.trouble(NGX_LOG_ERR, server.shownName(), "answered", answer);
        }
        if (error == StoreError::TryAgain && !answer.starts_with("TRYAGAIN")) {
            store_.topology().suspect();
        }
        if (isUndone(error, answer)) {
            putBack(server);  // they would fail, too
        }
        for (TakeBack* each : call.takeBacks) {
            failed(*each, error, answer);
        }
        calls_.recycle(call);
    } else if (!follow(call, reply, error)) {
        putBack(server);
        keepAll(call);
    }
    send(server);
    store_.closeWhenUnused();
}

/// It was executed: one reply, or one of each in an array.
void TakeBacks::repliedTo(TakeBackCall& call, const redisReply& reply) {
    Server& server = *call.server;
    const bool isOne = call.isRelease || call.takeBacks.size() == 1;
    const bool isArray = reply.type == REDIS_REPLY_ARRAY && reply.elements == call.takeBacks.size();
    sendAfter_.reset();
    queuesOf(server).pace.executed(call.tookNs);
    quitDelay_.executed();
    bool isUnexpected = isOne == isArray;
    for (std::size_t i = 0; i < call.takeBacks.size(); i++) {
        TakeBack& each = *call.takeBacks[i];
        const redisReply& its = isArray ? *reply.element[i] : reply;
        if (its.type == REDIS_REPLY_ERROR && !isUnexpected) {
            const StoreError error = classifyError(replyText(its));
            log_.trouble(NGX_LOG_ERR, server.shownName(), "answered", replyText(its));
            failed(each, error, replyText(its));
        } else if (isUnexpected || checkTakeBack(its, call.isRelease ? call.members : each.logs) != StoreError::None) {
            isUnexpected = true;
            lose(each, "unexpected reply");
        } else {
            finish(each);
        }
    }
    calls_.recycle(call);
    if (isUnexpected) {
        server.closeAsUnreliable();
    }
}

/// True if the call is on its way to the server that the redirect names.
bool TakeBacks::follow(TakeBackCall& call, const redisReply& reply, StoreError error) {
    Server* target = store_.redirectedBy(call, reply, error);
    if (target == nullptr || !target->hasReplied() || call.repetitions++ >= Call::kMostRedirects) {
        return false;
    }
    call.followsAsk = error == StoreError::Ask;
    send(*target, call);
    return true;
}

void TakeBacks::failed(TakeBack& takeBack, StoreError error, std::string_view answer) {
    if (isUndone(error, answer)) {
        keep(takeBack);
    } else {
        lose(takeBack, answer);
    }
}

void TakeBacks::lost(TakeBackCall& call) {
    ended(*call.server, call);
    for (TakeBack* each : call.takeBacks) {
        if (call.isOnWire && !each->isRepeatable()) {
            lose(*each, "the connection was lost");
        } else {
            keep(*each);
        }
    }
    calls_.recycle(call);
}

// ---- those that are lost

void TakeBacks::loseAll() {
    isDying_ = true;
    loseKept(kQuits);
}

void TakeBacks::loseKept(std::string_view why) {
    store_.topology().forEachServer([this](Server& server) { putBack(server); });
    while (TakeBack* takeBack = kept_.take()) {
        kept_.finished(*takeBack);
        lose(*takeBack, why);
    }
}

/// Its entries stay until they leave the window.
void TakeBacks::lose(TakeBack& takeBack, std::string_view why) {
    tellLost(takeBack.hashSlot, takeBack.entries, why, takeBack.settles);
    finish(takeBack);
}

void TakeBacks::tellLost(std::uint16_t hashSlot, std::uint64_t entries, std::string_view why, bool settles) {
    store_.countersOf(hashSlot).lostTakeBacks.add(entries);
    log_.trouble(
        NGX_LOG_ERR, shownNameOf(settings_),
        settles ? "the cost of a request could not be settled" : "a request could not be taken back out of its log",
        why);
}

/// It has ended. Known denials that were decided before it may have been learned since it was sent.
void TakeBacks::finish(TakeBack& takeBack) {
    quitDelay_.end();
    knownDenials_.entriesLeave(takeBack.leftLogs);
    takeBacks_.recycle(takeBack);
}

}  // namespace sliding_log
