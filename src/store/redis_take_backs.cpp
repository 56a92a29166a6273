// What a Redis store takes back, or settles: sent at once, or kept until Redis can do it.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "store/redis_store.hpp"

namespace sliding_log {

namespace {

/// A worker that quits stays so long, in ms, after it got the latest take-back, if Redis goes on to execute them.
constexpr ngx_msec_t kStaysMs = 10'000;

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

/// The number of entries by which the log is wrong if this is not taken back, or settled.
std::uint64_t entriesOf(const Check& check) {
    return static_cast<std::uint64_t>(check.isSettled() ? std::abs(check.settled - check.cost) : check.cost);
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
    return isOfAllWrites(answer);
}

}  // namespace

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
            tellLost(check.hashSlot, entriesOf(check), "its answer was lost");
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
    sendOrKeep(newTakeBack(checks, unique, loggedMs, takenMs, static_cast<std::int64_t>(loggedMs - takenMs)));
}

/// Sends it at once, or as earlier ones are answered.
void RedisStore::sendOrKeep(Call& call) {
    Server* server = serverFor(call);
    if (server == nullptr || !server->isWell()) {
        keep(call);
    } else if (server->pace().hasRoom() && server->kept().isEmpty()) {
        sendTakeBack(*server, call);
    } else {
        keepBehind(*server, call);
    }
}

/// `aheadMs`: how much later than now the time of the entries may be.
Call& RedisStore::newTakeBack(std::span<const Check> checks, std::string_view unique, std::uint64_t loggedMs,
                              std::uint64_t takenMs, std::int64_t aheadMs) {
    Call& call = calls_.take();
    call.leftLogs.clear();
    call.logs = checks.size();
    call.settles = std::ranges::any_of(checks, &Check::isSettled);
    call.entries = 0;
    std::int64_t lasts = 0;
    for (const Check& check : checks) {
        if (check.owed() == 0) {
            call.leftLogs.push_back(Signature::hashOfLog(check.key));
        }
        call.entries += entriesOf(check);
        lasts = std::max(lasts, lastsMs(check));
    }
    call.ended = ngx_current_msec;
    call.until = call.ended + static_cast<ngx_msec_t>(lasts + aheadMs);
    takeBackWriter_.writeTakeBack(call, checks, unique, loggedMs, takenMs, stamp(checks.front().algorithm));
    noteTakeBack();
    return call;
}

/// A take-back was added.
void RedisStore::noteTakeBack() {
    noteQuit();
    takeBacks_++;
    latestTakeBackAt_ = ngx_current_msec;
    waitForTakeBacks();
    if (!takeBackTimer_.isSet()) {
        takeBackTimer_.set(settings_.timeout);
    }
}

/// A worker that quits waits for the next one to be executed.
void RedisStore::waitForTakeBacks() {
    const ngx_msec_t next = ngx_current_msec + settings_.timeout;
    const ngx_msec_t last = latestTakeBackAt_ + kStaysMs;
    takeBacksUntil_ = isBefore(next, last) ? next : last;
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
    call.isPaced = true;
    server.pace().sent();
    server.send(call);
}

/// There are enough on the wire to this server.
void RedisStore::keepBehind(Server& server, Call& call) {
    if (!hasTakeBacks()) {
        loseTakeBack(call, "the worker quits");
        return;
    }
    kept_.keep(call, server.kept());
    while (kept_.areTooMany()) {
        loseOldest(server.kept());
    }
}

void RedisStore::loseOldest(List<Call, Queued>& kept) {
    Call& oldest = *kept.popFront();
    kept_.finished(oldest);
    loseTakeBack(oldest, "too many are owed");
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
    while (kept_.areTooMany()) {
        loseOldest(kept_.waiting());
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
    while (server.hasReplied() && (server.isWell() ? server.pace().hasRoom() : server.pace().isIdle())) {
        Call* call = server.kept().popFront();
        if (call == nullptr) {
            return;
        }
        kept_.finished(*call);
        sendTakeBack(server, *call);
    }
}

/// It was answered, or its connection has ended.
void RedisStore::backFrom(Server& server, Call& call) {
    if (call.isPaced) {
        call.isPaced = false;
        server.pace().ended();
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
        server.pace().executed(call.tookNs);
        waitForTakeBacks();
        giveBack(call);
        sendKept(server);
        return;
    }
    if (error == StoreError::Moved || error == StoreError::Ask) {
        Server* target = redirectedBy(reply, server, error);
        if (target != nullptr && target->canBeAsked() && target->hasReplied() && call.repetitions++ < kMostRedirects) {
            call.asking = error == StoreError::Ask;
            sendTakeBack(*target, call);
            sendKept(server);
            return;
        }
    } else {
        log_.trouble(NGX_LOG_ERR, server.shownName(), "answered", answer);
    }
    if (!isUndone(error, answer)) {
        loseTakeBack(call, answer);
        sendKept(server);
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

void RedisStore::loseKept(std::string_view why) {
    topology_->forEachServer([this](Server& server) { kept_.putBack(server.kept()); });
    while (Call* call = kept_.take()) {
        kept_.finished(*call);
        loseTakeBack(*call, why);
    }
}

/// Its entries stay until they leave the window.
void RedisStore::loseTakeBack(Call& call, std::string_view why) {
    tellLost(call.hashSlot, call.entries, why, call.settles);
    giveBack(call);
}

void RedisStore::tellLost(std::uint16_t hashSlot, std::uint64_t entries, std::string_view why, bool settles) {
    (dying_ ? unplacedCounters_ : countersOf(hashSlot)).lostTakeBacks.add(entries);
    log_.trouble(
        NGX_LOG_ERR, shownNameOf(settings_),
        settles ? "the cost of a request could not be settled" : "a request could not be taken back out of its log",
        why);
}

/// The take-back has ended. Known denials that were decided before it may have been learned since it was sent.
void RedisStore::giveBack(Call& call) {
    takeBacks_--;
    knownDenials_.entriesLeave(call.leftLogs);
    calls_.giveBack(call);
}

}  // namespace sliding_log
