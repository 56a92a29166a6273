#include "store/redis_store.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "limit/key.hpp"
#include "redis/addresses.hpp"
#include "redis/sentinel.hpp"

namespace sliding_log {

namespace {

/// LOADING, BUSY, TRYAGAIN, CLUSTERDOWN: asked again after so many ms, inside the timeout.
constexpr ngx_msec_t kRepeatAfterMs = 10;

/// An undo has no deadline: it is given a second, and more where it waits for a connection.
constexpr unsigned kMostUndoRepetitions = 100;

/// A call that is sent on more often than this in a row waits a moment each time: the nodes disagree.
constexpr unsigned kMostRedirects = 5;

/// Far inside what Lua can unpack() (8000), and more than a round trip gathers.
constexpr std::size_t kMostRequestsPerGroup = 512;

bool hasPassed(ngx_msec_t moment) {
    return static_cast<ngx_msec_int_t>(moment - ngx_current_msec) <= 0;
}

std::int64_t wallClockMs() {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::int64_t>(now->sec) * 1000 + static_cast<std::int64_t>(now->msec);
}

/// What messages call the store where they speak of none of its nodes.
std::string_view nameOf(const RedisSettings& settings) {
    return view(settings.mode == static_cast<ngx_uint_t>(Mode::Sentinel)
                    ? settings.master
                    : static_cast<const ServerSettings*>(settings.servers.elts)->text);
}

/// Of the logs behind the same keys, through reloads.
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
        default:
            return std::make_unique<SingleNode>(owner, log, settings, nameOf(settings),
                                                std::make_unique<Addresses>(settings, server));
    }
}

}  // namespace

RedisStore::RedisStore(const RedisSettings& settings, Denials denials, const Board& board, ngx_log_t* log)
    : settings_(settings),
      identity_(identityOf(settings)),
      log_(settings.name, log),
      board_(board),
      unplacedCounters_(counters(nameOf(settings))),
      denials_(denials),
      flush_(
          this, [](void* self) { static_cast<RedisStore*>(self)->flush(); }, log),
      deadline_(
          this, [](void* self) { static_cast<RedisStore*>(self)->expire(); }, Timer::Kind::Work, log),
      repeat_(
          this, [](void* self) { static_cast<RedisStore*>(self)->repeatQueued(); }, Timer::Kind::Work, log),
      owing_(
          this, [](void* self) { static_cast<RedisStore*>(self)->tryToQuit(); }, Timer::Kind::Work, log),
      topology_(topologyOf(settings, *this, log_)) {}

/// A dying worker resumes nothing: whoever still waits is forgotten before hiredis tells the calls.
RedisStore::~RedisStore() {
    while (Waiter* waiter = deadlines_.popFront()) {
        waiter->forget();
    }
    dying_ = true;
    while (Call* call = queued_.popFront()) {
        failed(*call, StoreError::Down);
    }
    topology_->forEachNode([this](Node& node) {
        while (Call* call = node.takeQueued()) {
            failed(*call, StoreError::Down);
        }
    });
}

void RedisStore::start() {
    topology_->start();
}

void RedisStore::tick() {
    unplacedCounters_.touch(ngx_current_msec);
    topology_->forEachNode([](Node& node) { node.tick(); });
}

/// Of the server that is to be asked for that slot.
NodeCounters& RedisStore::countersOf(std::uint16_t slot) {
    Node* node = topology_->nodeOf(slot);
    return node == nullptr ? unplacedCounters_ : node->counters();
}

RedisStore::Reception RedisStore::ask(std::span<const Question> questions, std::string_view unique, ngx_msec_t waitedMs,
                                      Waiter& waiter) {
    const Belief belief = known(questions, waiter.verdicts);
    if (belief == Belief::Holds) {
        return Reception::KnownDenied;
    }
    const bool isLate = waitedMs >= settings_.timeout;
    const bool canAsk = !isLate && topology_->canBeAsked(questions.front().slot);
    if (belief == Belief::Due && (!canAsk || !denials_.claim(signature_, ngx_current_msec))) {
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
    Group& group = groupFor(questions);
    group.requests++;
    group.refreshes = group.refreshes || belief == Belief::Due;
    group.waiters.pushBack(waiter);
    waiter.group = &group;
    waiter.questions = questions;
    waiter.unique = unique;
    waiter.deadline = ngx_current_msec + settings_.timeout - waitedMs;
    watch(waiter);
    if (!deadline_.isSet() || (waitedMs > 0 && &deadlines_.front() == &waiter)) {
        deadline_.set(waiter.deadline - ngx_current_msec);
    }
    return Reception::Pending;
}

/// Sets signature_, too.
Belief RedisStore::known(std::span<const Question> questions, std::span<Verdict> verdicts) {
    signature_.assign(identity_, questions);
    return denials_.find(signature_, ngx_current_msec, verdicts);
}

bool RedisStore::isTurnedAway(std::uint16_t slot) {
    return refusals_.turnsAway(topology_->nodeOf(slot), slot, ngx_current_msec,
                               static_cast<std::uint64_t>(ngx_random()));
}

/// The waiter is woken at its deadline at the latest.
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
    Orphan& orphan = orphans_.take();
    orphan.store = this;
    orphan.wake = [](Waiter& self, StoreError error) {
        auto& orphan = static_cast<Orphan&>(self);
        orphan.store->buryOrphan(orphan, error);
    };
    orphan.replace(waiter);
    watch(orphan);
}

void RedisStore::buryOrphan(Orphan& orphan, StoreError error) {
    const bool isAdmitted = error == StoreError::None && std::ranges::all_of(orphan.verdicts, &Verdict::hasRoom);
    const bool isHeld = std::ranges::any_of(orphan.verdicts, [](const Verdict& each) { return each.delayMs > 0; });
    if (isAdmitted) {
        const auto delayMs = static_cast<std::uint64_t>(orphan.verdicts.front().delayMs);
        if (!isHeld) {
            std::erase_if(orphan.copies, [](const Question& each) { return !each.leavesWithClient; });
        }
        if (!orphan.copies.empty()) {
            takeBack(orphan.copies, orphan.unique, orphan.loggedMs, orphan.loggedMs - delayMs);
        }
    }
    orphans_.giveBack(orphan);
}

void RedisStore::takeBack(std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                          std::uint64_t takenMs) {
    Call& call = calls_.take();
    call.leftLogs.clear();
    for (const Question& question : questions) {
        call.leftLogs.push_back(Signature::hashOfLog(question.key));
    }
    denials_.entriesLeave(call.leftLogs);
    writer_.writeTakeBack(call, questions, unique, loggedMs, takenMs, stamp());
    owe();
    route(call);
}

/// A take-back is on its way.
void RedisStore::owe() {
    owed_++;
    owedUntil_ = ngx_current_msec + settings_.timeout;
    quitting_ = quitting_ || ngx_exiting != 0;
    if (!owing_.isSet()) {
        owing_.set(settings_.timeout);
    }
}

bool RedisStore::isOwing() const {
    return owed_ > 0 && !(ngx_exiting != 0 && hasPassed(owedUntil_));
}

/// The timer of what is owed.
void RedisStore::tryToQuit() {
    if (!isOwing()) {
        closeWhenUnused();
    } else if (hasPassed(owedUntil_)) {
        owing_.set(settings_.timeout);
    } else {
        owing_.set(owedUntil_ - ngx_current_msec);
    }
}

void RedisStore::loseTakeBack(const Call& call) {
    (dying_ ? unplacedCounters_ : countersOf(call.slot)).lostTakeBacks.add();
    log_.trouble(NGX_LOG_ERR, nameOf(settings_), "a request could not be taken back out of its log", "");
}

// ---- groups

/// The group that the request joins: the one of the same questions that is not sent yet, or its follower.
Group& RedisStore::groupFor(std::span<const Question> questions) {
    Group* group = groups_.find(signature_);
    if (group == nullptr) {
        group = &newGroup(questions);
        group->joinable = true;
        groups_.insert(*group);
        open(*group);
        return *group;
    }
    if (group->sent) {
        if (group->follower == nullptr) {
            group->follower = &newGroup(questions);
            group->follower->joinable = true;
        }
        group = group->follower;
    }
    if (group->requests >= kMostRequestsPerGroup) {
        group = &newGroup(questions);
        open(*group);
    }
    return *group;
}

Group& RedisStore::newGroup(std::span<const Question> questions) {
    Group& group = groupObjects_.take();
    group.signature = signature_;
    group.requests = 0;
    group.logs = questions.size();
    group.algorithm = questions.front().algorithm;
    group.slot = questions.front().slot;
    group.sent = group.joinable = group.refreshes = false;
    group.refusedBy = nullptr;
    group.refusal.clear();
    group.follower = nullptr;
    return group;
}

/// The group waits to be sent, by the node that serves it or until that is known.
void RedisStore::open(Group& group) {
    Node* node = dying_ ? nullptr : topology_->nodeOf(group.slot);
    (node == nullptr ? unplaced_ : node->groups()).pushBack(group);
    flush_.post();
}

/// As open(), for a group that has waited already: where nobody can be asked it waits no longer.
void RedisStore::openAgain(List<Group, Opened>& groups) {
    List<Group, Opened> again;
    groups.moveTo(again);
    while (Group* group = again.popFront()) {
        if (topology_->canBeAsked(group->slot)) {
            open(*group);
        } else {
            settle(*group, StoreError::Down);
        }
    }
}

/// The first group that waits to be sent, nullptr when there is none. Groups that everybody left are retired.
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

/// The end of a turn of the event loop: what it asked leaves in as few calls as may be.
void RedisStore::flush() {
    topology_->forEachNode([this](Node& node) { flush(node); });
    closeWhenUnused();
}

void RedisStore::flush(Node& node) {
    while (node.isReady() && nextToSend(node) != nullptr) {
        Call& call = calls_.take();
        writer_.begin(call, node.groups().front());
        for (Group* group = nextToSend(node); group != nullptr && writer_.hasRoomFor(*group);
             group = nextToSend(node)) {
            node.groups().popFront();
            group->sent = true;
            group->sentAt = ngx_current_msec;
            group->generation = denials_.generation(group->signature);
            writer_.add(*group);
        }
        writer_.finish(stamp());
        node.send(call);
    }
}

/// What a call is told of the time: this node's, or "" for the server's. The view is good until the next one.
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
    if (!topology_->canBeAsked(call.slot) || (call.isUndo() && !isOwing())) {
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
    switch (error) {
        case StoreError::None:
            answer(call, reply);
            return;
        case StoreError::TryAgain:
        case StoreError::NotMaster:
        case StoreError::Moved:
        case StoreError::Ask:
            if (call.isUndo() ? isOwing() && call.repetitions < kMostUndoRepetitions : call.isWaitedFor()) {
                call.repetitions++;
                repeat(call, reply, error);
                return;
            }
            break;
        default:
            log_.trouble(NGX_LOG_ERR, call.node->name(), "answered", replyText(reply));
    }
    failed(call, error);
}

/// Nothing was done for such a call: the same, or another node may do it.
void RedisStore::repeat(Call& call, const redisReply& reply, StoreError error) {
    Node& node = *call.node;
    if (error == StoreError::NotMaster) {
        log_.trouble(NGX_LOG_ERR, node.name(), "answered", replyText(reply).empty() ? "READONLY" : replyText(reply));
        node.leave();
        node.send(call);
        return;
    }
    if (error == StoreError::TryAgain) {
        const bool isUnderWay = replyText(reply).starts_with("TRYAGAIN");
        if (!isUnderWay) {
            topology_->suspect();
        }
        if (isUnderWay && call.groups.size() > 1) {
            askApart(call);
        } else if (isOfSlots(replyText(reply))) {
            waitOut(call, replyText(reply), error);
        } else {
            repeatSoon(call);
        }
        return;
    }
    const std::optional<Redirect> redirect = readRedirect(replyText(reply));
    Node* target = redirect ? topology_->follow(*redirect, node, error == StoreError::Moved) : nullptr;
    if (target == nullptr || !target->canBeAsked()) {
        log_.trouble(NGX_LOG_ERR, node.name(), "answered", replyText(reply));
        failed(call, StoreError::Refused);
    } else if (call.repetitions > kMostRedirects) {
        waitOut(call, replyText(reply), error);
    } else {
        call.asking = error == StoreError::Ask;
        target->send(call);
    }
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

/// Asks again in a moment, unless a request has waited in vain for another answer than this one.
void RedisStore::waitOut(Call& call, std::string_view answer, StoreError error) {
    if (!call.isUndo() && refusals_.isLasting(call.node, call.slot, answer, ngx_current_msec)) {
        log_.trouble(NGX_LOG_ERR, call.node->name(), "answered", answer);
        failed(call, error);
        return;
    }
    for (Group* group : call.groups) {
        group->refusedBy = call.node;
        group->refusal = answer;
    }
    repeatSoon(call);
}

/// A slot on its way: the keys of one group may be on one side, those of another on the other.
void RedisStore::askApart(Call& call) {
    for (Group* group : call.groups) {
        group->requests = 0;
        group->waiters.forEach([&](Waiter&) { group->requests++; });
        if (group->requests == 0) {
            retire(*group);
            continue;
        }
        Call& own = calls_.take();
        writer_.begin(own, *group);
        writer_.add(*group);
        writer_.finish(stamp());
        repeatSoon(own);
    }
    calls_.giveBack(call);
}

void RedisStore::answer(Call& call, const redisReply& reply) {
    const bool isExpected = call.isUndo() ? checkTakeBack(reply, call.leftLogs.size()) == StoreError::None
                                          : reply.type == REDIS_REPLY_ARRAY && reply.elements == call.groups.size();
    if (!isExpected) {
        call.node->distrust();
        failed(call, StoreError::Unexpected);
        return;
    }
    for (std::size_t i = 0; i < call.groups.size(); i++) {
        answer(*call.node, *call.groups[i], *reply.element[i]);
    }
    giveBack(call);
    closeWhenUnused();
}

void RedisStore::answer(Node& node, Group& group, const redisReply& reply) {
    const StoreError error =
        group.waiters.isEmpty() ? errorIn(reply) : reply_.read(reply, group.requests, group.waiters.front().questions);
    if (error == StoreError::Unexpected) {
        node.distrust();
    } else if (error != StoreError::None) {
        log_.trouble(NGX_LOG_ERR, node.name(), "answered", replyText(reply));
    } else {
        group.waiters.forEach([&](Waiter& waiter) {
            reply_.writeVerdicts(waiter.place, waiter.verdicts);
            waiter.loggedMs = reply_.loggedMs(waiter.place);
        });
        if (settings_.clock == static_cast<ngx_uint_t>(Clock::Nginx)) {
            tellSkew(node, group);
        }
        learn(group);
    }
    settle(group, error);
}

/// A log's latest decision cannot lie ahead of this node's clock, unless another node's clock is ahead of it.
void RedisStore::tellSkew(const Node& node, Group& group) {
    const std::int64_t ms = reply_.nowMs() - wallClockMs();
    if (ms <= 0 || group.waiters.isEmpty()) {
        return;
    }
    const Question& shortest = *std::ranges::min_element(group.waiters.front().questions, {}, &Question::windowMs);
    if (ms > shortest.windowMs / 10) {
        log_.clockIsBehind(node.name(), ms, nameIn(shortest.key.substr(settings_.prefix.len)));
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
    if (call.isUndo()) {
        loseTakeBack(call);
    }
    for (Group* group : call.groups) {
        settle(*group, error);
    }
    giveBack(call);
    closeWhenUnused();
}

/// The call is over. Denials that were decided before an undo of it may have been learned since that was sent.
void RedisStore::giveBack(Call& call) {
    if (call.isUndo()) {
        owed_--;
        denials_.entriesLeave(call.leftLogs);
    }
    calls_.giveBack(call);
}

void RedisStore::settle(Group& group, StoreError error) {
    while (!group.waiters.isEmpty()) {
        Waiter& waiter = group.waiters.front();
        if (error != StoreError::None) {
            countersOf(group.slot).failed(error);
        }
        waiter.forget();
        waiter.wake(waiter, error);
    }
    retire(group);
}

/// The group is done: its follower's turn has come.
void RedisStore::retire(Group& group) {
    if (group.joinable) {
        groups_.erase(group);
        if (group.follower != nullptr) {
            groups_.insert(*group.follower);
            open(*group.follower);
        }
    }
    groupObjects_.giveBack(group);
}

/// A group on the wire keeps its place there until its reply comes, or the connection is given up.
void RedisStore::expire() {
    while (!deadlines_.isEmpty() && hasPassed(deadlines_.front().deadline)) {
        Waiter& waiter = deadlines_.front();
        const Group& group = *waiter.group;
        countersOf(group.slot).failed(StoreError::Timeout);
        Node* node = topology_->nodeOf(group.slot);
        if (!group.refusal.empty()) {
            refusals_.add(group.refusedBy, group.slot, group.refusal, ngx_current_msec);
            log_.trouble(NGX_LOG_ERR, node == nullptr ? nameOf(settings_) : node->name(), "timed out", group.refusal);
        } else if (node != nullptr) {
            node->timedOut(waiter.deadline - settings_.timeout);
        } else {
            log_.trouble(NGX_LOG_ERR, nameOf(settings_), "timed out", "no server to ask inside \"timeout\"");
        }
        waiter.forget();
        waiter.wake(waiter, StoreError::Timeout);
    }
    topology_->forEachNode([](Node& node) { node.giveUpIfSilent(); });
    if (!deadlines_.isEmpty()) {
        deadline_.set(deadlines_.front().deadline - ngx_current_msec);
    }
    closeWhenUnused();
}

// ---- what the nodes tell

void RedisStore::nodeReady(Node& node) {
    topology_->nodeReady(node);
    flush();
}

void RedisStore::nodeDown(Node& node) {
    topology_->nodeDown(node);
    openAgain(node.groups());
    openAgain(unplaced_);
    if (deadlines_.isEmpty()) {
        deadline_.cancel();  // without a socket nobody tells of a quit, which the timer would hold up
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
    while (Call* call = node.takeQueued()) {
        route(*call);
    }
}

void RedisStore::mapChanged() {
    openAgain(unplaced_);
}

/// Requests may end in the same turn, and have something to give back then.
void RedisStore::workerQuits() {
    quitting_ = true;
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
