#include "store/redis_store.hpp"

#include <algorithm>
#include <functional>

#include "redis/reply.hpp"
#include "redis/resp.hpp"

namespace sliding_log {

namespace {

/// A connection is given up after this many timeouts without a reply between them, and so long a silence.
constexpr unsigned kTimeoutsToGiveUp = 3;
constexpr unsigned kSilentTimeoutsToGiveUp = 2;

/// How often one call is sent again on NOSCRIPT: more means that the server does not keep scripts at all.
constexpr unsigned kMostRepetitions = 3;

/// One call's size: a script of 64 logs takes about a millisecond, in which Redis serves nobody else.
constexpr std::size_t kMostLogsPerCall = 64;

/// Far inside what Lua can unpack() (8000), and more than a round trip gathers.
constexpr std::size_t kMostRequestsPerGroup = 512;

/// LOADING, BUSY, TRYAGAIN: asked again after so many ms, inside the timeout.
constexpr ngx_msec_t kRepeatAfterMs = 10;

std::vector<Endpoint> endpointsOf(const RedisSettings& settings) {
    std::vector<Endpoint> endpoints;
    for (ngx_uint_t i = 0; i < settings.addressCount; i++) {
        const ngx_addr_t& address = settings.addresses[i];
        const std::string_view text = view(address.name);
        if (address.sockaddr->sa_family == AF_UNIX) {
            endpoints.push_back({"", 0, std::string(text.substr(sizeof("unix:") - 1)), std::string(text)});
            continue;
        }
        u_char host[NGX_SOCKADDR_STRLEN];
        const size_t length = ngx_sock_ntop(address.sockaddr, address.socklen, host, sizeof host, 0);
        endpoints.push_back({std::string(reinterpret_cast<const char*>(host), length),
                             ngx_inet_get_port(address.sockaddr), "", std::string(text)});
    }
    return endpoints;
}

bool hasPassed(ngx_msec_t moment) {
    return static_cast<ngx_msec_int_t>(moment - ngx_current_msec) <= 0;
}

std::int64_t wallClockMs() {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::int64_t>(now->sec) * 1000 + static_cast<std::int64_t>(now->msec);
}

}  // namespace

void Call::replied(const redisReply* reply) {
    store.replied(*this, reply);
}

void RedisStore::ScriptsReloaded::replied(const redisReply* reply) {
    if (reply != nullptr && reply->type == REDIS_REPLY_ERROR) {
        store.report(NGX_LOG_ERR, "SCRIPT LOAD answered", replyText(*reply));
    }
}

RedisStore::RedisStore(const RedisSettings& settings, Denials denials, ngx_log_t* log)
    : settings_(settings),
      log_(log),
      endpoints_(endpointsOf(settings)),
      greeting_(*this, {std::string(view(settings.username)), std::string(view(settings.password)), settings.database}),
      backoff_(settings.reconnectMin, settings.reconnectMax),
      denials_(denials),
      flush_(
          this, [](void* self) { static_cast<RedisStore*>(self)->flush(); }, log),
      deadline_(
          this, [](void* self) { static_cast<RedisStore*>(self)->expire(); }, Timer::Kind::Work, log),
      connectDeadline_(
          this, [](void* self) { static_cast<RedisStore*>(self)->connection_.close("connect timed out"); },
          Timer::Kind::Chore, log),
      reconnect_(
          this, [](void* self) { static_cast<RedisStore*>(self)->connect(); }, Timer::Kind::Chore, log),
      repeat_(
          this, [](void* self) { static_cast<RedisStore*>(self)->repeatQueued(); }, Timer::Kind::Chore, log),
      connection_(*this, log) {}

/// A dying worker resumes nothing: whoever still waits is forgotten before hiredis tells the calls.
RedisStore::~RedisStore() {
    while (Waiter* waiter = deadlines_.popFront()) {
        waiter->forget();
    }
    quitting_ = false;
    state_ = State::Down;
}

void RedisStore::start() {
    connect();
}

RedisStore::Reception RedisStore::ask(std::span<const Question> questions, std::string_view unique, ngx_msec_t waitedMs,
                                      Waiter& waiter) {
    sign(questions);
    if (denials_.find(signature_, hash_, ngx_current_msec, waiter.verdicts)) {
        return Reception::KnownDenied;
    }
    if (waitedMs >= settings_.timeout || !canBeAsked()) {
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
    opened_.pushBack(group);
    flush_.post();
}

/// The end of a turn of the event loop: what it asked leaves in as few calls as may be.
void RedisStore::flush() {
    while (state_ == State::Ready && !opened_.isEmpty()) {
        Call& call = calls_.take(*this);
        fill(call);
        if (call.groups.empty()) {
            calls_.giveBack(call);
        } else {
            dispatch(call);
        }
    }
    closeWhenUnused();
}

void RedisStore::fill(Call& call) {
    call.script = Script::SlidingLog;
    call.repetitions = 0;
    call.groups.clear();
    keys_.clear();
    arguments_.clear();
    keyCount_ = argumentCount_ = 0;
    while (!opened_.isEmpty() && (keyCount_ == 0 || keyCount_ + opened_.front().logs <= kMostLogsPerCall)) {
        Group& group = *opened_.popFront();
        if (group.requests == 0) {  // everybody left
            retire(group);
            continue;
        }
        group.sent = true;
        group.sentAt = ngx_current_msec;
        call.groups.push_back(&group);
        appendGroup(group);
    }
    std::string& out = call.command;
    out.clear();
    beginCommand(out, 4 + keyCount_ + argumentCount_);
    appendArgument(out, "EVALSHA");
    appendArgument(out, scriptSha(call.script));
    appendArgument(out, static_cast<std::int64_t>(keyCount_));
    out.append(keys_);
    if (settings_.clock == static_cast<ngx_uint_t>(Clock::Nginx)) {
        appendArgument(out, wallClockMs());
    } else {
        appendArgument(out, "");
    }
    out.append(arguments_);
}

/// Adds what lua/sliding_log.lua wants to know of one group to keys_ and arguments_.
void RedisStore::appendGroup(Group& group) {
    const std::span<const Question> logs = group.waiters.front().questions;
    appendArgument(arguments_, static_cast<std::int64_t>(logs.size()));
    appendArgument(arguments_, static_cast<std::int64_t>(group.requests));
    std::size_t place = 0;
    group.waiters.forEach([&](Waiter& waiter) {
        waiter.place = place++;
        appendArgument(arguments_, waiter.unique);
    });
    argumentCount_ += 2 + group.requests;
    for (std::size_t i = 0; i < logs.size(); i++) {
        appendArgument(keys_, logs[i].key);
        appendArgument(arguments_, logs[i].limit);
        appendArgument(arguments_, logs[i].windowMs);
        appendArgument(arguments_, logs[i].cap);
        appendArgument(arguments_, logs[i].ttlMs);
        appendArgument(arguments_, logs[i].named ? "1" : "0");
        argumentCount_ += 5;
        if (logs[i].named) {
            group.waiters.forEach([&](Waiter& waiter) { appendArgument(arguments_, waiter.questions[i].id); });
            argumentCount_ += group.requests;
        }
    }
    keyCount_ += logs.size();
}

void RedisStore::takeBack(std::span<const Question> questions, std::string_view unique) {
    sign(questions);
    denials_.forget(signature_, hash_);
    if (!canBeAsked()) {
        report(NGX_LOG_ERR, "an admission could not be taken back", "no connection");
        return;
    }
    Call& call = calls_.take(*this);
    call.script = Script::SlidingLogUndo;
    call.repetitions = 0;
    call.groups.clear();
    std::string& out = call.command;
    out.clear();
    beginCommand(out, 4 + 2 * questions.size());
    appendArgument(out, "EVALSHA");
    appendArgument(out, scriptSha(call.script));
    appendArgument(out, static_cast<std::int64_t>(questions.size()));
    for (const Question& question : questions) {
        appendArgument(out, question.key);
    }
    appendArgument(out, unique);
    for (const Question& question : questions) {
        appendArgument(out, question.id);
    }
    dispatch(call);
}

bool RedisStore::canBeAsked() {
    if (state_ == State::Idle) {
        connect();
    }
    return state_ == State::Ready || (state_ == State::Connecting && trusted_);
}

void RedisStore::dispatch(Call& call) {
    if (state_ == State::Ready && connection_.send(call.command, call)) {
        call.sequence = ++sent_;
    } else {
        queued_.pushBack(call);
    }
}

void RedisStore::replied(Call& call, const redisReply* reply) {
    if (reply == nullptr) {
        settle(call, StoreError::Down);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        const StoreError error = classifyError(replyText(*reply));
        if (error == StoreError::TryAgain) {
            repeatSoon(call);
            return;
        }
        timeouts_ = 0;
        if (error == StoreError::NoScript && call.repetitions < kMostRepetitions) {
            repeatWithScript(call);
            return;
        }
        report(NGX_LOG_ERR, "answered", replyText(*reply));
        settle(call, error);
    } else {
        timeouts_ = 0;
        answer(call, *reply);
    }
}

void RedisStore::answer(Call& call, const redisReply& reply) {
    if (call.script == Script::SlidingLog &&
        (reply.type != REDIS_REPLY_ARRAY || reply.elements != call.groups.size())) {
        report(NGX_LOG_ERR, "unexpected reply", "");
        settle(call, StoreError::Unexpected);
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
        report(NGX_LOG_ERR, "unexpected reply", "");
    } else if (error != StoreError::None) {
        report(NGX_LOG_ERR, "answered", replyText(reply));
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

bool RedisStore::isWaitedFor(const Call& call) const {
    return std::ranges::any_of(call.groups, [](const Group* group) { return !group->waiters.isEmpty(); });
}

/// NOSCRIPT: of all the calls in flight the first one has the scripts loaded; the others, sent before that, only
/// follow them on the wire.
void RedisStore::repeatWithScript(Call& call) {
    call.repetitions++;
    if (call.sequence > scriptsSent_) {
        scriptsSent_ = sent_;
        for (Script script : kScripts) {
            connection_.send(command({"SCRIPT", "LOAD", scriptSource(script)}), scriptsReloaded_);
        }
    }
    dispatch(call);
}

/// An undo has no deadline of its own: it is given as long as a decision would have.
void RedisStore::repeatSoon(Call& call) {
    const bool mayRepeat =
        call.script == Script::SlidingLog ? isWaitedFor(call) : call.repetitions++ * kRepeatAfterMs < settings_.timeout;
    if (!mayRepeat) {
        settle(call, StoreError::TryAgain);
        return;
    }
    queued_.pushBack(call);
    if (!repeat_.isSet()) {
        repeat_.set(kRepeatAfterMs);
    }
}

void RedisStore::repeatQueued() {
    List<Call, Queued> again;
    while (Call* call = queued_.popFront()) {
        again.pushBack(*call);
    }
    while (Call* call = again.popFront()) {
        dispatch(*call);
    }
}

void RedisStore::settle(Call& call, StoreError error) {
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
        if (timeouts_++ == 0) {
            silentSince_ = waiter.deadline - settings_.timeout;
        }
        report(NGX_LOG_ERR, "timed out", "no answer inside \"timeout\"");
        waiter.forget();
        waiter.wake(waiter, StoreError::Timeout);
    }
    if (state_ == State::Ready && timeouts_ >= kTimeoutsToGiveUp &&
        ngx_current_msec - silentSince_ >= kSilentTimeoutsToGiveUp * settings_.timeout) {
        trusted_ = false;
        connection_.close("no answer to several calls in a row");
    }
    if (!deadlines_.isEmpty()) {
        deadline_.set(deadlines_.front().deadline - ngx_current_msec);
    }
    closeWhenUnused();
}

void RedisStore::connect() {
    state_ = State::Connecting;
    timeouts_ = 0;
    scriptsSent_ = sent_;
    if (connection_.open(endpoints_[endpoint_])) {
        connectDeadline_.set(settings_.connectTimeout);
    } else {
        becomeDown(connection_.error());
    }
}

void RedisStore::connected() {
    greeting_.begin(connection_);
}

void RedisStore::greeted() {
    connectDeadline_.cancel();
    backoff_.reset();
    if (!trusted_ && recoveries_.allows()) {
        ngx_log_error(NGX_LOG_NOTICE, log_, 0, "sliding_log_redis \"%V\" (%V): connected again", &settings_.name,
                      &settings_.server);
    }
    trusted_ = true;
    readySince_ = ngx_current_msec;
    state_ = State::Ready;
    repeatQueued();
    flush();
}

void RedisStore::greetingRefused(std::string_view reason) {
    connection_.close(reason);
}

void RedisStore::evictionUnsafe(std::string_view policy) {
    if (ngx_worker == 0) {
        const ngx_str_t text = toNgx(policy);
        ngx_log_error(NGX_LOG_WARN, log_, 0,
                      "sliding_log_redis \"%V\" (%V): maxmemory-policy \"%V\" can evict live logs, which forgets "
                      "requests; use noeviction or volatile-ttl",
                      &settings_.name, &settings_.server, &text);
    }
}

void RedisStore::disconnected(std::string_view reason) {
    connectDeadline_.cancel();
    const bool worked = state_ == State::Ready && trusted_ && ngx_current_msec - readySince_ >= settings_.reconnectMin;
    state_ = State::Idle;
    if (quitting_ && deadlines_.isEmpty()) {
        closeWhenUnused();
        return;
    }
    if (worked) {
        report(NGX_LOG_WARN, "connection lost", reason);
        connect();
    } else {
        becomeDown(reason);
    }
}

void RedisStore::becomeDown(std::string_view reason) {
    state_ = State::Down;
    trusted_ = false;
    endpoint_ = (endpoint_ + 1) % endpoints_.size();
    report(NGX_LOG_ERR, "is down", reason);
    reconnect_.set(backoff_.next(static_cast<std::uint64_t>(ngx_random())));
    while (Call* call = queued_.popFront()) {
        settle(*call, StoreError::Down);
    }
    while (Group* group = opened_.popFront()) {
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
    if (quitting_ && deadlines_.isEmpty()) {
        deadline_.cancel();
        if (connection_.pending() == 0) {
            connection_.close("the worker quits");
        }
    }
}

void RedisStore::report(ngx_uint_t level, const char* what, std::string_view cause) {
    if (throttle_.allows()) {
        const ngx_str_t text = toNgx(cause);
        ngx_log_error(level, log_, 0, "sliding_log_redis \"%V\" (%V): %s%s%V", &settings_.name, &settings_.server, what,
                      cause.empty() ? "" : ": ", &text);
    }
}

}  // namespace sliding_log
