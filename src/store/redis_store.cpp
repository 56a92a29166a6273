#include "store/redis_store.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "limit/number.hpp"
#include "redis/addresses.hpp"
#include "redis/reply.hpp"
#include "redis/sentinel.hpp"

namespace sliding_log {

namespace {

/// Far inside what Lua can unpack() (8000), and more than a round trip gathers.
constexpr std::size_t kMostRequestsPerGroup = 512;

bool hasPassed(ngx_msec_t moment) {
    return static_cast<ngx_msec_int_t>(moment - ngx_current_msec) <= 0;
}

std::int64_t wallClockMs() {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::int64_t>(now->sec) * 1000 + static_cast<std::int64_t>(now->msec);
}

std::unique_ptr<Locator> locatorOf(const RedisSettings& settings, ngx_log_t* log) {
    if (settings.mode == static_cast<ngx_uint_t>(Mode::Sentinel)) {
        return std::make_unique<SentinelLocator>(settings, log);
    }
    return std::make_unique<Addresses>(settings, *static_cast<const ServerSettings*>(settings.servers.elts));
}

/// What messages call the server.
std::string_view nameOf(const RedisSettings& settings) {
    return view(settings.mode == static_cast<ngx_uint_t>(Mode::Sentinel)
                    ? settings.master
                    : static_cast<const ServerSettings*>(settings.servers.elts)->text);
}

}  // namespace

RedisStore::RedisStore(const RedisSettings& settings, Denials denials, ngx_log_t* log)
    : settings_(settings),
      log_(settings.name, log),
      denials_(denials),
      flush_(
          this, [](void* self) { static_cast<RedisStore*>(self)->flush(); }, log),
      deadline_(
          this, [](void* self) { static_cast<RedisStore*>(self)->expire(); }, Timer::Kind::Work, log),
      node_(*this, log_, settings, nameOf(settings), locatorOf(settings, log)) {}

/// A dying worker resumes nothing: whoever still waits is forgotten before hiredis tells the calls.
RedisStore::~RedisStore() {
    while (Waiter* waiter = deadlines_.popFront()) {
        waiter->forget();
    }
    quitting_ = false;
}

void RedisStore::start() {
    node_.connect();
}

RedisStore::Reception RedisStore::ask(std::span<const Question> questions, std::string_view unique, ngx_msec_t waitedMs,
                                      Waiter& waiter) {
    sign(questions);
    if (denials_.find(signature_, hash_, ngx_current_msec, waiter.verdicts)) {
        return Reception::KnownDenied;
    }
    if (waitedMs >= settings_.timeout || !node_.canBeAsked()) {
        return Reception::Unavailable;
    }
    Group& group = groupFor(questions.size());
    group.requests++;
    group.waiters.pushBack(waiter);
    waiter.group = &group;
    waiter.questions = questions;
    waiter.unique = unique;
    waiter.deadline = ngx_current_msec + settings_.timeout - waitedMs;
    deadlines_.insertSorted(waiter, [](const Waiter& left, const Waiter& right) {
        return static_cast<ngx_msec_int_t>(left.deadline - right.deadline) < 0;
    });
    if (!deadline_.isSet() || (waitedMs > 0 && &deadlines_.front() == &waiter)) {
        deadline_.set(waiter.deadline - ngx_current_msec);
    }
    return Reception::Pending;
}

/// Sets signature_: the same for the same logs and limits, and for no others.
void RedisStore::sign(std::span<const Question> questions) {
    signature_.clear();
    for (const Question& question : questions) {
        signature_.append(question.key);
        signature_.append(reinterpret_cast<const char*>(&question.limit), sizeof question.limit);
    }
    hash_ = std::hash<std::string_view>()(signature_);
}

/// The group that the request joins: the one of the same questions that is not sent yet, or its follower.
Group& RedisStore::groupFor(std::size_t logs) {
    Group* group = groups_.find(signature_, hash_);
    if (group == nullptr) {
        group = &newGroup(logs);
        group->joinable = true;
        groups_.insert(*group);
        open(*group);
        return *group;
    }
    if (group->sent) {
        if (group->follower == nullptr) {
            group->follower = &newGroup(logs);
            group->follower->joinable = true;
        }
        group = group->follower;
    }
    if (group->requests >= kMostRequestsPerGroup) {
        group = &newGroup(logs);
        open(*group);
    }
    return *group;
}

Group& RedisStore::newGroup(std::size_t logs) {
    Group& group = groupObjects_.take();
    group.signature = signature_;
    group.hash = hash_;
    group.requests = 0;
    group.logs = logs;
    group.sent = group.joinable = false;
    group.follower = nullptr;
    return group;
}

void RedisStore::open(Group& group) {
    node_.groups().pushBack(group);
    flush_.post();
}

/// The first group that waits to be sent, nullptr when there is none. Groups that everybody left are retired.
Group* RedisStore::nextToSend() {
    while (!node_.groups().isEmpty()) {
        Group& group = node_.groups().front();
        if (group.requests > 0) {
            return &group;
        }
        node_.groups().popFront();
        retire(group);
    }
    return nullptr;
}

/// The end of a turn of the event loop: what it asked leaves in as few calls as may be.
void RedisStore::flush() {
    while (node_.isReady() && nextToSend() != nullptr) {
        Call& call = calls_.take();
        writer_.begin(call, Script::SlidingLog);
        for (Group* group = nextToSend(); group != nullptr && writer_.hasRoomFor(*group); group = nextToSend()) {
            node_.groups().popFront();
            group->sent = true;
            group->sentAt = ngx_current_msec;
            writer_.add(*group);
        }
        if (settings_.clock == static_cast<ngx_uint_t>(Clock::Nginx)) {
            writer_.finish(DecimalText(wallClockMs()).view());
        } else {
            writer_.finish("");
        }
        node_.send(call);
    }
    closeWhenUnused();
}

void RedisStore::takeBack(std::span<const Question> questions, std::string_view unique) {
    sign(questions);
    denials_.forget(signature_, hash_);
    if (!node_.canBeAsked()) {
        log_.trouble(NGX_LOG_ERR, node_.name(), "an admission could not be taken back", "no connection");
        return;
    }
    Call& call = calls_.take();
    CallWriter::writeUndo(call, questions, unique);
    node_.send(call);
}

void RedisStore::answered(Call& call, const redisReply& reply) {
    if (reply.type == REDIS_REPLY_ERROR) {
        log_.trouble(NGX_LOG_ERR, call.node->name(), "answered", replyText(reply));
        failed(call, classifyError(replyText(reply)));
        return;
    }
    if (!call.isUndo() && (reply.type != REDIS_REPLY_ARRAY || reply.elements != call.groups.size())) {
        log_.trouble(NGX_LOG_ERR, call.node->name(), "unexpected reply", "");
        failed(call, StoreError::Unexpected);
        return;
    }
    for (std::size_t i = 0; i < call.groups.size(); i++) {
        answer(*call.groups[i], *reply.element[i]);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

void RedisStore::answer(Group& group, const redisReply& reply) {
    const StoreError error = checkGroup(reply, group.requests, group.logs);
    if (error == StoreError::Unexpected) {
        log_.trouble(NGX_LOG_ERR, node_.name(), "unexpected reply", "");
    } else if (error != StoreError::None) {
        log_.trouble(NGX_LOG_ERR, node_.name(), "answered", replyText(reply));
    } else {
        group.waiters.forEach([&](Waiter& waiter) { readVerdicts(reply, waiter.place, waiter.verdicts); });
        keepDenial(group);
    }
    settle(group, error);
}

/// The last request of a group is the one that is denied if any is.
void RedisStore::keepDenial(Group& group) {
    if (group.waiters.isEmpty()) {
        return;
    }
    const Waiter& last = group.waiters.back();
    const bool isDenied = !std::ranges::all_of(last.verdicts, &Verdict::hasRoom);
    if (isDenied && std::ranges::all_of(last.questions, &Question::keepsDenials)) {
        denials_.publish(group.signature, group.hash, group.sentAt, last.verdicts);
    }
}

void RedisStore::failed(Call& call, StoreError error) {
    for (Group* group : call.groups) {
        settle(*group, error);
    }
    calls_.giveBack(call);
    closeWhenUnused();
}

void RedisStore::settle(Group& group, StoreError error) {
    while (!group.waiters.isEmpty()) {
        Waiter& waiter = group.waiters.front();
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
        node_.timedOut(waiter.deadline - settings_.timeout);
        log_.trouble(NGX_LOG_ERR, node_.name(), "timed out", "no answer inside \"timeout\"");
        waiter.forget();
        waiter.wake(waiter, StoreError::Timeout);
    }
    node_.giveUpIfSilent();
    if (!deadlines_.isEmpty()) {
        deadline_.set(deadlines_.front().deadline - ngx_current_msec);
    }
    closeWhenUnused();
}

void RedisStore::nodeReady(Node&) {
    flush();
}

void RedisStore::nodeDown(Node& node) {
    while (Group* group = node.groups().popFront()) {
        settle(*group, StoreError::Down);
    }
    if (deadlines_.isEmpty()) {
        deadline_.cancel();  // without a socket nobody tells of a quit, which the timer would hold up
    }
}

void RedisStore::workerQuits() {
    quitting_ = true;
    closeWhenUnused();
}

void RedisStore::closeWhenUnused() {
    if (isLeaving()) {
        deadline_.cancel();
        node_.closeIfUnused();
    }
}

}  // namespace sliding_log
