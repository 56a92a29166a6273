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

/// A call that is redirected more often than this in a row waits each time, since the nodes disagree.
constexpr unsigned kMostRedirects = 5;

/// The number of kept take-backs sent to a server at a time: all workers of a fleet have some when it returns.
constexpr std::size_t kMostRepaying = 16;

/// When kept take-backs are tried again, in ms, unless a server becomes ready earlier.
constexpr std::uint64_t kRepayMinMs = 10;
constexpr std::uint64_t kRepayMaxMs = 1000;

bool hasPassed(ngx_msec_t moment) {
    return static_cast<ngx_msec_int_t>(moment - ngx_current_msec) <= 0;
}

std::int64_t wallClockMs() {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::int64_t>(now->sec) * 1000 + static_cast<std::int64_t>(now->msec);
}

/// Snapshots fail, or there are too few replicas.
bool refusesAllWrites(std::string_view answer) {
    return answer.starts_with("MISCONF") || answer.starts_with("NOREPLICAS");
}

/// An error of a group, from its script, with one of its logs.
bool mayBeOfOneLog(StoreError error, std::string_view message) {
    return error == StoreError::WrongType || error == StoreError::OutOfMemory ||
           (error == StoreError::Refused && !isOfScripts(message) && !refusesAllWrites(message));
}

/// The deadline of a call that a request waits for.
bool hasSeveralLogs(const Call& call) {
    return call.groups.size() > 1 || call.groups.front()->waiters.front().questions.size() > 1;
}

/// How long an entry may count after its time: a counter also weighs the previous window, and a bucket may take several
/// windows to fill up.
std::int64_t lastsMs(const Question& question) {
    constexpr std::int64_t kMostMs = std::int64_t{366} * 24 * 3600 * 1000;
    const std::int64_t full = std::max<std::int64_t>(question.limit, 1);
    std::int64_t windows = 1;
    switch (rowOf(question.algorithm).lasts) {
        case Lasts::Window:
            break;
        case Lasts::NextWindow:
            windows = 2;
            break;
        case Lasts::Refill:
            windows = (question.burst + full - 1) / full;
            break;
    }
    return windows > kMostMs / question.windowMs ? kMostMs : windows * question.windowMs;
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

/// The name of the store in messages that are not about one of its nodes.
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
            return std::make_unique<SingleNode>(owner, log, settings, nameOf(settings),
                                                std::make_unique<SentinelLocator>(settings, log.nginxLog()));
        case Mode::Standalone:
            break;
    }
    return std::make_unique<SingleNode>(owner, log, settings, nameOf(settings),
                                        std::make_unique<Addresses>(settings, server));
}

}  // namespace

RedisStore::RedisStore(const RedisSettings& settings, Denials denials, const Board& board, ngx_log_t* log)
    : settings_(settings),
      identity_(identityOf(settings)),
      log_(settings, log),
      board_(board),
      unplacedCounters_(counters(nameOf(settings))),
      denials_(denials),
      flush_(
          this, [](void* self) { static_cast<RedisStore*>(self)->flush(); }, log),
      deadline_(
          this, [](void* self) { static_cast<RedisStore*>(self)->expire(); }, Timer::Kind::Work, log),
      repeat_(
          this, [](void* self) { static_cast<RedisStore*>(self)->repeatQueued(); }, Timer::Kind::Work, log),
      repayAfter_(kRepayMinMs, kRepayMaxMs),
      repay_(
          this, [](void* self) { static_cast<RedisStore*>(self)->repay(); }, Timer::Kind::Chore, log),
      owing_(
          this, [](void* self) { static_cast<RedisStore*>(self)->tryToQuit(); }, Timer::Kind::Work, log),
      topology_(topologyOf(settings, *this, log_)) {}

/// A worker that exits resumes no requests: all waiters are removed before hiredis reports the calls.
RedisStore::~RedisStore() {
    while (Waiter* waiter = deadlines_.popFront()) {
        waiter->forget();
    }
    dying_ = true;
    while (Call* call = queued_.popFront()) {
        failed(*call, StoreError::Down);
    }
    loseKept("the worker quits");
    topology_->forEachNode([this](Node& node) {
        while (Call* call = node.takeQueued()) {
            lost(*call);
        }
    });
}

void RedisStore::start() {
    topology_->start();
}

std::size_t RedisStore::tick() {
    unplacedCounters_.touch(ngx_current_msec);
    topology_->forEachNode([](Node& node) { node.tick(); });
    writer_.freeMemory();
    reply_ = {};
    std::size_t passing = calls_.freeUnused() + groupObjects_.freeUnused() + orphans_.freeUnused();
    deadlines_.forEach([&](const Waiter&) { passing++; });
    return passing;
}

/// The counters of the server of that slot.
NodeCounters& RedisStore::countersOf(std::uint16_t slot) {
    Node* node = topology_->nodeOf(slot);
    return node == nullptr ? unplacedCounters_ : node->counters();
}

RedisStore::Reception RedisStore::ask(std::span<const Question> questions, std::string_view unique, ngx_msec_t leftMs,
                                      Waiter& waiter) {
    const Signature& signature = signatureOf(questions);
    const Belief belief = denials_.find(signature, ngx_current_msec, waiter.verdicts);
    if (belief == Belief::Holds) {
        return Reception::KnownDenied;
    }
    if (questions.size() > 1 && areApart(questions)) {
        return Reception::Apart;
    }
    const bool isLate = leftMs == 0;
    const bool canAsk = !isLate && topology_->canBeAsked(questions.front().slot);
    if (belief == Belief::Due && (!canAsk || !denials_.claim(signature, ngx_current_msec))) {
        return Reception::KnownDenied;
    }
    if (!canAsk) {
        countersOf(questions.front().slot).failed(isLate ? StoreError::Timeout : StoreError::Down);
        return Reception::Unavailable;
    }
    if (!refusals_.isEmpty() && isTurnedAway(questions.front().slot)) {
        countersOf(questions.front().slot).failed(StoreError::TryAgain);
        return belief == Belief::Due ? Reception::KnownDenied : Reception::Unavailable;
    }
    Group& group = groupFor(questions, signature);
    group.requests++;
    group.refreshes = group.refreshes || belief == Belief::Due;
    group.waiters.pushBack(waiter);
    waiter.group = &group;
    waiter.questions = questions;
    waiter.unique = unique;
    waiter.apart = false;
    waiter.deadline = ngx_current_msec + std::min(settings_.timeout, leftMs);
    watch(waiter);
    if (!deadline_.isSet() || (leftMs < settings_.timeout && &deadlines_.front() == &waiter)) {
        deadline_.set(waiter.deadline - ngx_current_msec);
    }
    return Reception::Pending;
}

Belief RedisStore::known(std::span<const Question> questions, std::span<Verdict> verdicts) {
    return denials_.find(signatureOf(questions), ngx_current_msec, verdicts);
}

/// Good until the next one.
const Signature& RedisStore::signatureOf(std::span<const Question> questions) {
    latestSignature_.assign(identity_, questions);
    return latestSignature_;
}

bool RedisStore::isWell(std::uint16_t slot) {
    const Node* node = topology_->nodeOf(slot);
    return node != nullptr && node->isWell();
}

/// True if these logs must not be asked in one call.
bool RedisStore::areApart(std::span<const Question> questions) const {
    return !loners_.isEmpty(ngx_current_msec) && loners_.areApart(questions, ngx_current_msec);
}

bool RedisStore::isTurnedAway(std::uint16_t slot) {
    return refusals_.turnsAway(topology_->nodeOf(slot), slot, ngx_current_msec,
                               static_cast<std::uint64_t>(ngx_random()));
}

/// The waiter is woken by its deadline at the latest.
void RedisStore::watch(Waiter& waiter) {
    deadlines_.insertSorted(waiter, [](const Waiter& left, const Waiter& right) {
        return static_cast<ngx_msec_int_t>(left.deadline - right.deadline) < 0;
    });
}

void RedisStore::abandon(Waiter& waiter) {
    if (waiter.group == nullptr || !waiter.group->sent) {
        waiter.forget();
        return;
    }
    Orphan& orphan = orphanOf(waiter);
    for (const Question& question : orphan.copies) {
        if (question.leavesWithClient) {
            orphan.leave(question.key);
        }
    }
    owe();
    orphan.isOwed = true;
    watch(orphan);
}

/// The request continues without a reply, and may have been logged.
void RedisStore::wakeUnanswered(Waiter& waiter, StoreError error) {
    waiter.orphan = &orphanOf(waiter);
    waiter.wake(waiter, error);
    waiter.orphan = nullptr;
}

Orphan& RedisStore::orphanOf(Waiter& waiter) {
    Orphan& orphan = orphans_.take();
    orphan.replace(waiter);
    return orphan;
}

/// Its group has been answered. A reservation is taken back in all logs, since it is not used.
void RedisStore::bury(Orphan& orphan, StoreError error) {
    const bool isInDoubt = orphan.group->isInDoubt;
    const bool isAdmitted = error == StoreError::None && std::ranges::all_of(orphan.verdicts, &Verdict::hasRoom);
    const bool isHeld =
        isAdmitted && std::ranges::any_of(orphan.verdicts, [](const Verdict& each) { return each.delayMs > 0; });
    orphan.forget();
    if (orphan.late != nullptr) {
        orphan.late->state = isInDoubt               ? Late::State::Unknown
                             : isAdmitted && !isHeld ? Late::State::Logged
                                                     : Late::State::Void;
        orphan.late->loggedMs = orphan.loggedMs;
    }
    const auto delayMs = static_cast<std::uint64_t>(orphan.verdicts.front().delayMs);
    const std::span<const Question> leavers = orphan.leavers(isHeld);
    if (isAdmitted && !leavers.empty()) {
        takeBack(leavers, orphan.unique, orphan.loggedMs, orphan.loggedMs - delayMs);
    } else if (isInDoubt) {
        takeBackUnseen(leavers, orphan.unique);
    }
    if (std::exchange(orphan.isOwed, false)) {
        takeBacks_--;
    }
    orphans_.giveBack(orphan);
}

void RedisStore::takeBackLate(Late& late, std::span<const Question> questions, std::string_view unique) {
    switch (late.state) {
        case Late::State::Open:
            for (const Question& question : questions) {
                late.orphan->leave(question.key);
            }
            if (!std::exchange(late.orphan->isOwed, true)) {
                owe();
            }
            break;
        case Late::State::Logged:
            takeBack(questions, unique, late.loggedMs, late.loggedMs);
            break;
        case Late::State::Void:
            break;
        case Late::State::Unknown:
            takeBackUnseen(questions, unique);
            break;
    }
}

/// Entries that may be in the logs, at an unknown time. They can only be found by the unique name of the request; an id
/// may belong to another request, too. Not sent at once: the server may still have to read the lost calls.
void RedisStore::takeBackUnseen(std::span<const Question> questions, std::string_view unique) {
    constexpr std::uint64_t kAnyTime = std::uint64_t{1} << 53;
    for (const Question& question : questions) {
        if (rowOf(question.algorithm).namesEntries && question.id.empty()) {
            keep(newTakeBack({&question, 1}, unique, kAnyTime, 0, question.delayMs));
        } else {
            tellLost(question.slot, "its answer was lost");
        }
    }
}

void RedisStore::takeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs) {
    if (questions.size() > 1 && areApart(questions)) {
        for (const Question& question : questions) {
            takeBack({&question, 1}, unique, loggedMs, takenMs);
        }
        return;
    }
    Call& call = newTakeBack(questions, unique, loggedMs, takenMs, static_cast<std::int64_t>(loggedMs - takenMs));
    Node* node = nodeFor(call);
    if (node != nullptr && node->isWell()) {
        sendTakeBack(*node, call);
    } else {
        keep(call);
    }
}

/// `aheadMs`: how much later than now the time of the entries may be.
Call& RedisStore::newTakeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                              std::uint64_t takenMs, std::int64_t aheadMs) {
    Call& call = calls_.take();
    call.leftLogs.clear();
    std::int64_t lasts = 0;
    for (const Question& question : questions) {
        call.leftLogs.push_back(Signature::hashOfLog(question.key));
        lasts = std::max(lasts, lastsMs(question));
    }
    call.until = ngx_current_msec + static_cast<ngx_msec_t>(lasts + aheadMs);
    writer_.writeTakeBack(call, questions, unique, loggedMs, takenMs, stamp());
    owe();
    return call;
}

// ---- take-backs that are kept

/// A take-back was added.
void RedisStore::owe() {
    noteQuit();
    takeBacks_++;
    owedUntil_ = ngx_current_msec + settings_.timeout;
    if (!owing_.isSet()) {
        owing_.set(settings_.timeout);
    }
}

/// The worker was told to quit, which is not reported without a connection: the time for its take-backs starts now.
void RedisStore::noteQuit() {
    if (ngx_exiting != 0 && !quitting_) {
        quitting_ = true;
        owedUntil_ = ngx_current_msec + settings_.timeout;
        repaySoon();
    }
}

bool RedisStore::isOwing() const {
    return takeBacks_ > 0 && !(quitting_ && hasPassed(owedUntil_));
}

/// The timer of kept take-backs.
void RedisStore::tryToQuit() {
    noteQuit();
    if (!isOwing()) {
        loseKept("the worker quits");
        closeWhenUnused();
    } else if (hasPassed(owedUntil_)) {
        owing_.set(settings_.timeout);
    } else {
        owing_.set(owedUntil_ - ngx_current_msec);
    }
}

/// The server of the slot of the call, connected or connecting; nullptr if there is none.
Node* RedisStore::nodeFor(const Call& call) {
    return !dying_ && topology_->canBeAsked(call.slot) ? topology_->nodeOf(call.slot) : nullptr;
}

void RedisStore::sendTakeBack(Node& node, Call& call) {
    denials_.entriesLeave(call.leftLogs);
    node.send(call);
}

/// Redis cannot execute it now.
void RedisStore::keep(Call& call) {
    if (dying_ || !isOwing()) {
        loseTakeBack(call, "the worker quits");
        return;
    }
    call.asking = false;
    call.scriptMisses = call.repetitions = 0;
    owed_.keep(call);
    while (Call* surplus = owed_.surplus()) {
        loseTakeBack(*surplus, "too many are owed");
    }
    if (!repay_.isSet()) {
        repay_.set(repayAfter_.next(static_cast<std::uint64_t>(ngx_random())));
    }
}

/// A server is ready again. All workers learn of it at the same time, so each waits a random time, and at least until
/// the server has read what lost connections still hold: requests that timed out, whose entries have to be taken back.
void RedisStore::repaySoon() {
    if (!owed_.isEmpty()) {
        repayAfter_.reset();
        const ngx_msec_t least = quitting_ ? 0 : std::min<ngx_msec_t>(kSpreadMs, settings_.timeout / 2);
        repay_.set(least + static_cast<ngx_msec_t>(ngx_random()) % (least + 1));
    }
}

/// Sends kept take-backs to each server that is ready.
void RedisStore::repay() {
    noteQuit();
    topology_->forEachNode([this](Node& node) { owed_.putBack(node.owed()); });
    List<Call, Queued> again;
    while (Call* call = owed_.take()) {
        Node* node = nodeFor(*call);
        if (hasPassed(call->until)) {
            owed_.settled(*call);
            giveBack(*call);
        } else {
            (node != nullptr && node->hasAnswered() ? node->owed() : again).pushBack(*call);
        }
    }
    owed_.putBack(again);
    topology_->forEachNode([this](Node& node) { repay(node); });
    if (!owed_.isEmpty()) {
        repay_.set(repayAfter_.next(static_cast<std::uint64_t>(ngx_random())));
    }
    closeWhenUnused();
}

/// A server with timeouts must first answer.
void RedisStore::repay(Node& node) {
    while (node.hasAnswered() && node.repaying() < (node.isWell() ? kMostRepaying : 1)) {
        Call* call = node.owed().popFront();
        if (call == nullptr) {
            return;
        }
        owed_.settled(*call);
        call->isRepaid = true;
        node.repaying()++;
        sendTakeBack(node, *call);
    }
}

/// It was answered, or its connection has ended.
void RedisStore::backFrom(Node& node, Call& call) {
    if (call.isRepaid) {
        call.isRepaid = false;
        node.repaying()--;
    }
}

void RedisStore::takenBack(Call& call, const redisReply& reply, StoreError error) {
    Node& node = *call.node;
    const std::string_view answer = replyText(reply);
    backFrom(node, call);
    noteQuit();
    if (error == StoreError::None) {
        if (checkTakeBack(reply, call.leftLogs.size()) != StoreError::None) {
            node.distrust();
            loseTakeBack(call, "unexpected reply");
            return;
        }
        repayAfter_.reset();
        giveBack(call);
        repay(node);
        return;
    }
    if (error == StoreError::Moved || error == StoreError::Ask) {
        Node* target = redirectedBy(reply, node, error);
        if (target != nullptr && target->canBeAsked() && target->hasAnswered() && call.repetitions++ < kMostRedirects) {
            call.asking = error == StoreError::Ask;
            target->send(call);
            return;
        }
    } else {
        log_.trouble(NGX_LOG_ERR, node.shownName(), "answered", answer);
    }
    if (!isUndone(error, answer)) {
        loseTakeBack(call, answer);
        return;
    }
    if (error == StoreError::NotMaster) {
        node.leave();
    } else if (error == StoreError::TryAgain && !answer.starts_with("TRYAGAIN")) {
        topology_->suspect();
    }
    owed_.putBack(node.owed());  // they would fail, too
    keep(call);
}

/// No reply will arrive.
void RedisStore::lost(Call& call) {
    if (!call.isUndo()) {
        failed(call, StoreError::Down);
        return;
    }
    backFrom(*call.node, call);
    if (call.isOnWire && !call.isRepeatable()) {
        loseTakeBack(call, "the connection was lost");
    } else {
        keep(call);
    }
}

void RedisStore::loseKept(std::string_view why) {
    topology_->forEachNode([this](Node& node) { owed_.putBack(node.owed()); });
    while (Call* call = owed_.take()) {
        owed_.settled(*call);
        loseTakeBack(*call, why);
    }
}

/// Its entries stay until they leave the window.
void RedisStore::loseTakeBack(Call& call, std::string_view why) {
    tellLost(call.slot, why);
    giveBack(call);
}

void RedisStore::tellLost(std::uint16_t slot, std::string_view why) {
    (dying_ ? unplacedCounters_ : countersOf(slot)).lostTakeBacks.add();
    log_.trouble(NGX_LOG_ERR, shownNameOf(settings_, nameOf(settings_)),
                 "a request could not be taken back out of its log", why);
}

// ---- groups

/// The group that the request joins: the last one with the same questions, if it has not been sent and has room.
Group& RedisStore::groupFor(std::span<const Question> questions, const Signature& signature) {
    Group* first = groups_.find(signature);
    if (first == nullptr) {
        first = &newGroup(questions, signature);
        first->last = first;
        groups_.insert(*first);
        open(*first);
    } else if (first->last->sent || first->last->isFull()) {
        Group& next = newGroup(questions, signature);
        first->last->follower = &next;
        first->last = &next;
    }
    return *first->last;
}

Group& RedisStore::newGroup(std::span<const Question> questions, const Signature& signature) {
    Group& group = groupObjects_.take();
    group.signature = signature;
    group.requests = 0;
    group.workOfLogs = workOfLogs(questions.size());
    group.workOfRequest = workOfRequest(questions);
    group.algorithm = questions.front().algorithm;
    group.slot = questions.front().slot;
    group.sent = group.refreshes = false;
    group.refusedBy = nullptr;
    group.refusal.clear();
    group.isInDoubt = false;
    group.follower = group.last = nullptr;
    return group;
}

/// Queues the group at the node that serves it, or until this node is known.
void RedisStore::open(Group& group) {
    Node* node = dying_ ? nullptr : topology_->nodeOf(group.slot);
    (node == nullptr ? unplaced_ : node->groups()).pushBack(group);
    flush_.post();
}

/// Like open(), for a group that has already waited: if no server can be asked, it does not wait any more.
void RedisStore::openAgain(List<Group, Opened>& groups) {
    List<Group, Opened> again;
    groups.moveTo(again);
    while (Group* group = again.popFront()) {
        if (topology_->canBeAsked(group->slot)) {
            open(*group);
        } else {
            settle(*group, StoreError::Down);
            groups.moveTo(again);  // its follower
        }
    }
}

/// The first group to be sent, nullptr if there is none. Groups without waiters are retired.
Group* RedisStore::nextToSend(Node& node) {
    while (!node.groups().isEmpty()) {
        Group& group = node.groups().front();
        if (group.requests > 0) {
            return &group;
        }
        node.groups().popFront();
        retire(group);
    }
    return nullptr;
}

/// At the end of an event-loop turn: sends all its questions in as few calls as possible.
void RedisStore::flush() {
    topology_->forEachNode([this](Node& node) { flush(node); });
    closeWhenUnused();
}

void RedisStore::flush(Node& node) {
    if (node.isDown()) {  // followers of groups that were in flight when it went down
        openAgain(node.groups());
    }
    while (node.isReady() && nextToSend(node) != nullptr) {
        Call& call = calls_.take();
        writer_.begin(call, node.groups().front(), stamp());
        bool isFull = false;
        for (Group* group = nextToSend(node); group != nullptr && !isFull && writer_.hasRoomFor(*group);
             group = nextToSend(node)) {
            isFull = goesAlone(*group);
            if (isFull && !call.groups.empty()) {
                break;
            }
            node.groups().popFront();
            group->sent = true;
            group->sentAt = ngx_current_msec;
            group->generation = denials_.generation(group->signature);
            writer_.add(*group);
        }
        writer_.finish();
        node.send(call);
    }
}

/// The list of a group that waits to be sent.
bool RedisStore::goesAlone(Group& group) {
    return !loners_.isEmpty(ngx_current_msec) && loners_.areAlone(group.waiters.front().questions, ngx_current_msec);
}

/// The time argument of a call: the time of this node, or "" for that of the server. Valid until the next call of this
/// function.
std::string_view RedisStore::stamp() {
    if (settings_.clock != static_cast<ngx_uint_t>(Clock::Nginx)) {
        return "";
    }
    now_ = DecimalText(wallClockMs());
    return now_.view();
}

// ---- calls

/// Sends the call to the node that serves its slot.
void RedisStore::route(Call& call) {
    call.asking = false;
    if (!call.isWaitedFor() || !topology_->canBeAsked(call.slot)) {
        failed(call, StoreError::Down);
    } else if (Node* node = topology_->nodeOf(call.slot)) {
        node->send(call);
    } else {
        repeatSoon(call);
    }
}

void RedisStore::answered(Call& call, const redisReply& reply, StoreError error) {
    if (!refusals_.isEmpty() && error != StoreError::TryAgain && error != StoreError::Moved) {
        refusals_.served(call.node, call.slot, ngx_current_msec);
    }
    if (call.isUndo()) {
        takenBack(call, reply, error);
        closeWhenUnused();
        return;
    }
    switch (error) {
        case StoreError::None:
            answer(call, reply);
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
            log_.failure(call.node->shownName(), "answered", replyText(reply));
            if (isOfKeys(replyText(reply)) && !call.isUndo()) {
                askApart(call, error);
                return;
            }
    }
    failed(call, error);
}

/// Nothing was done for such a call: the same or another node may execute it.
void RedisStore::repeat(Call& call, const redisReply& reply, StoreError error) {
    Node& node = *call.node;
    if (error == StoreError::NotMaster) {
        log_.trouble(NGX_LOG_ERR, node.shownName(), "answered", replyText(errorOfCall(reply)));
        node.leave();
        node.send(call);
        return;
    }
    if (error == StoreError::TryAgain) {
        const bool isUnderWay = isOfSlotUnderWay(replyText(reply));
        if (!isUnderWay) {
            topology_->suspect();
        }
        if (isUnderWay && !call.isUndo() && hasSeveralLogs(call)) {
            loners_.addSlot(call.slot, ngx_current_msec);
            askApart(call, error);
        } else if (isOfSlots(replyText(reply))) {
            waitOut(call, replyText(reply), error);
        } else {
            repeatSoon(call);
        }
        return;
    }
    Node* target = redirectedBy(reply, node, error);
    if (target == nullptr || !target->canBeAsked()) {
        log_.failure(node.shownName(), "answered", replyText(reply));
        failed(call, StoreError::Refused);
    } else if (call.repetitions > kMostRedirects) {
        waitOut(call, replyText(reply), error);
    } else {
        call.asking = error == StoreError::Ask;
        target->send(call);
    }
}

/// The node that MOVED or ASK names; nullptr if there is none.
Node* RedisStore::redirectedBy(const redisReply& reply, const Node& from, StoreError error) {
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
    if (refusals_.isLasting(call.node, call.slot, answer, ngx_current_msec)) {
        log_.failure(call.node->shownName(), "answered", answer);
        failed(call, error);
        return;
    }
    for (Group* group : call.groups) {
        group->refusedBy = call.node;
        group->refusal = answer;
    }
    repeatSoon(call);
}

/// Nothing was done for the call, possibly because of one of its logs: each group gets a call of its own; if it already
/// has one, its requests ask each log separately.
void RedisStore::askApart(Call& call, StoreError error) {
    if (call.groups.size() == 1) {
        refuse(*call.groups.front(), error);
        call.groups.clear();
    }
    for (Group* group : call.groups) {
        while (Waiter* orphan = group->orphans.popFront()) {
            bury(static_cast<Orphan&>(*orphan), StoreError::TryAgain);
        }
        group->requests = 0;
        group->waiters.forEach([&](Waiter&) { group->requests++; });
        if (group->requests == 0) {
            retire(*group);
            continue;
        }
        Call& own = calls_.take();
        writer_.begin(own, *group, stamp());
        writer_.add(*group);
        writer_.finish();
        own.isPart = true;
        route(own);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

void RedisStore::answer(Call& call, const redisReply& reply) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != call.groups.size()) {
        call.node->distrust();
        failed(call, StoreError::Unexpected);
        return;
    }
    for (std::size_t i = 0; i < call.groups.size(); i++) {
        answer(*call.node, *call.groups[i], *reply.element[i]);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

void RedisStore::answer(Node& node, Group& group, const redisReply& reply) {
    List<Waiter, InGroup>& any = group.waiters.isEmpty() ? group.orphans : group.waiters;
    const StoreError error = any.isEmpty() ? errorIn(reply) : reply_.read(reply, group.requests, any.front().questions);
    if (error == StoreError::Unexpected) {
        group.isInDoubt = true;
        node.distrust();
    } else if (error != StoreError::None) {
        log_.failure(node.shownName(), "answered", replyText(reply));
        if (mayBeOfOneLog(error, replyText(reply))) {
            refuse(group, error);
            return;
        }
    } else {
        const auto tell = [this](Waiter& waiter) {
            reply_.writeVerdicts(waiter.place, waiter.verdicts);
            waiter.loggedMs = reply_.loggedMs(waiter.place);
        };
        group.waiters.forEach(tell);
        group.orphans.forEach(tell);
        if (settings_.clock == static_cast<ngx_uint_t>(Clock::Nginx)) {
            tellSkew(node, group);
        }
        learn(group);
    }
    settle(group, error);
}

/// The latest decision of a log can only be ahead of the clock of this node if the clock of another node is ahead of
/// it.
void RedisStore::tellSkew(const Node& node, Group& group) {
    const std::int64_t ms = reply_.nowMs() - wallClockMs();
    if (ms <= 0 || group.waiters.isEmpty()) {
        return;
    }
    const Question& shortest = *std::ranges::min_element(group.waiters.front().questions, {}, &Question::windowMs);
    if (ms > shortest.windowMs / 10) {
        log_.clockIsBehind(node.shownName(), ms, nameIn(shortest.key.substr(settings_.prefix.len)));
    }
}

/// The last request of a group is the one that is denied if any is.
void RedisStore::learn(Group& group) {
    if (group.waiters.isEmpty()) {
        return;
    }
    const Waiter& last = group.waiters.back();
    const bool isDenied = !std::ranges::all_of(last.verdicts, &Verdict::hasRoom);
    if (!isDenied) {
        if (group.refreshes) {
            denials_.forget(group.signature);
        }
    } else if (std::ranges::none_of(last.questions, &Question::countsAll)) {
        denials_.publish(group.signature, group.generation, group.sentAt, last.questions, last.verdicts);
    }
}

void RedisStore::failed(Call& call, StoreError error) {
    for (Group* group : call.groups) {
        group->isInDoubt = call.isOnWire || error == StoreError::Unexpected;
        settle(*group, error);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

/// The undo has ended. Denials that were decided before it may have been learned since it was sent.
void RedisStore::giveBack(Call& call) {
    takeBacks_--;
    denials_.entriesLeave(call.leftLogs);
    calls_.giveBack(call);
}

void RedisStore::settle(Group& group, StoreError error) {
    while (!group.waiters.isEmpty()) {
        Waiter& waiter = group.waiters.front();
        if (error != StoreError::None && !waiter.apart) {
            countersOf(group.slot).failed(error);
        }
        if (group.isInDoubt) {
            wakeUnanswered(waiter, error);
        } else {
            waiter.forget();
            waiter.wake(waiter, error);
        }
    }
    while (Waiter* orphan = group.orphans.popFront()) {
        bury(static_cast<Orphan&>(*orphan), error);
    }
    retire(group);
}

/// The server refuses the group because of one of its logs. With several logs it is not known which: the requests ask
/// each separately, and count when that one is refused.
void RedisStore::refuse(Group& group, StoreError error) {
    const std::span<const Question> logs =
        group.waiters.isEmpty() ? std::span<const Question>() : group.waiters.front().questions;
    if (logs.size() > 1) {
        group.waiters.forEach([](Waiter& waiter) { waiter.apart = true; });
    } else if (!logs.empty() && error == StoreError::Forbidden) {
        loners_.addName(logs.front().key, ngx_current_msec);
    } else if (!logs.empty()) {
        loners_.addLog(logs.front().key, ngx_current_msec);
    }
    settle(group, error);
}

/// The group is done; its follower is next.
void RedisStore::retire(Group& group) {
    groups_.erase(group);
    if (Group* next = group.follower) {
        next->last = group.last;
        groups_.insert(*next);
        open(*next);
    }
    groupObjects_.giveBack(group);
}

/// A group in flight keeps its place until its reply arrives or the connection is closed.
void RedisStore::expire() {
    while (!deadlines_.isEmpty() && hasPassed(deadlines_.front().deadline)) {
        Waiter& waiter = deadlines_.front();
        const Group& group = *waiter.group;
        countersOf(group.slot).failed(StoreError::Timeout);
        Node* node = topology_->nodeOf(group.slot);
        if (!group.refusal.empty()) {
            refusals_.add(group.refusedBy, group.slot, group.refusal, ngx_current_msec);
            log_.failure(node == nullptr ? shownNameOf(settings_, nameOf(settings_)) : node->shownName(), "timed out",
                         group.refusal);
        } else if (node != nullptr) {
            node->timedOut(group.sent ? group.sentAt : waiter.deadline - settings_.timeout);
        } else {
            log_.failure(shownNameOf(settings_, nameOf(settings_)), "timed out", "no server to ask inside \"timeout\"");
        }
        if (waiter.isGone()) {
            static_cast<ListHook<WithDeadline>&>(waiter).unlink();
        } else if (group.sent) {
            wakeUnanswered(waiter, StoreError::Timeout);
        } else {
            waiter.forget();
            waiter.wake(waiter, StoreError::Timeout);
        }
    }
    topology_->forEachNode([](Node& node) { node.giveUpIfSilent(); });
    if (!deadlines_.isEmpty()) {
        deadline_.set(deadlines_.front().deadline - ngx_current_msec);
    }
    closeWhenUnused();
}

// ---- events of the nodes

void RedisStore::nodeReady(Node& node) {
    topology_->nodeReady(node);
    repaySoon();
    flush();
}

void RedisStore::nodeDown(Node& node) {
    topology_->nodeDown(node);
    openAgain(node.groups());
    openAgain(unplaced_);
    if (deadlines_.isEmpty()) {
        deadline_.cancel();  // without a socket a quit is not reported, and the timer would delay it
    }
}

void RedisStore::nodeLeaves(Node& node) {
    refusals_.forget(&node);
    deadlines_.forEach([&](const Waiter& waiter) {
        if (waiter.group->refusedBy == &node) {
            waiter.group->refusal.clear();
        }
    });
    openAgain(node.groups());
    owed_.putBack(node.owed());
    while (Call* call = node.takeQueued()) {
        if (call->isUndo()) {
            lost(*call);
        } else {
            route(*call);
        }
    }
}

void RedisStore::mapChanged() {
    openAgain(unplaced_);
    repaySoon();
}

/// Requests may end in the same turn and have entries to give back.
void RedisStore::workerQuits() {
    noteQuit();
    flush_.post();
}

void RedisStore::closeWhenUnused() {
    if (isLeaving()) {
        deadline_.cancel();
        owing_.cancel();
        topology_->forEachNode([](Node& node) { node.closeIfUnused(); });
    }
}

}  // namespace sliding_log
