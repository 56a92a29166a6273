#include "servers/server.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "redis/native_command.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "redis/scripts.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// A connection is closed after this many timeouts without a reply between them, and a silence of this many timeouts.
constexpr unsigned kTimeoutsToGiveUp = 3;
constexpr unsigned kSilentTimeoutsToGiveUp = 2;

/// How often a call is repeated after NOSCRIPT: if that is not enough, the server does not keep scripts.
constexpr unsigned kMostScriptMisses = 4;

/// Why nothing is sent to a server that answers.
constexpr std::string_view kLate = "answers later than \"timeout\"";

/// Permits the next command for a slot that is still being imported.
constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";

constexpr std::uint64_t kNsPerMs = 1'000'000;

Role roleIn(const RedisSettings& settings) {
    switch (static_cast<Mode>(settings.mode)) {
        case Mode::Cluster:
            return Role::Any;
        case Mode::Sentinel:
            return Role::Master;
        case Mode::Standalone:
            break;
    }
    return Role::NoReplica;
}

Lookup lookupIn(const RedisSettings& settings) {
    switch (static_cast<Native>(settings.native)) {
        case Native::Auto:
            return Lookup::Optional;
        case Native::Required:
            return Lookup::Required;
        case Native::Off:
            break;
    }
    return Lookup::None;
}

}  // namespace

void Server::Prepared::replied(const redisReply* reply) {
    if (reply != nullptr && reply->type == REDIS_REPLY_ERROR) {
        server.log_.trouble(NGX_LOG_ERR, server.shownName_, "SCRIPT LOAD or ASKING answered", replyText(*reply));
    }
    server.closeIfLeft();
}

void Call::replied(const redisReply* reply) {
    server->replied(*this, reply);
}

Server::Server(ServerOwner& owner, StoreLog& log, const RedisSettings& settings, std::string_view name,
               std::unique_ptr<Discovery> discovery)
    : owner_(owner),
      log_(log),
      settings_(settings),
      name_(name),
      shownName_(shownNameOf(settings, name)),
      discovery_(std::move(discovery)),
      counters_(owner.counters(name)),
      health_(*this, counters_, log),
      handshake_(*this, {settings.password.len > 0, settings.database, roleIn(settings), lookupIn(settings)}),
      backoff_(settings.reconnectMin, settings.reconnectMax),
      attachment_(owner.attach()),
      connectDeadline_(
          this, [](void* self) { static_cast<Server*>(self)->connection_.close("connect timed out"); },
          Timer::Kind::Chore, log.nginxLog()),
      reconnect_(
          this, [](void* self) { static_cast<Server*>(self)->tryAgain(); }, Timer::Kind::Chore, log.nginxLog()),
      scriptWait_(
          this, [](void* self) { static_cast<Server*>(self)->sendQueued(); }, Timer::Kind::Chore, log.nginxLog()),
      connection_(*this, settings.tlsContext, log.nginxLog()) {}

/// Calls of its connection fail and are not sent again.
Server::~Server() {
    owner_.credentials().forget(*this);
    state_ = State::Down;
    health_.report(Reachability::Unknown);
}

void Server::connect() {
    state_ = State::Connecting;
    unreadySince_ = nowMs();
    moved_ = probed_ = false;
    native_.forget();
    timeouts_ = 0;
    notYet_.clear();
    owner_.credentials().refresh(*this);
}

void Server::discovered(const Endpoint& endpoint) {
    if (settings_.mode == static_cast<ngx_uint_t>(Mode::Sentinel)) {
        shownName_ = hostAndPort(endpoint.host, endpoint.port).append(", ").append(shownNameOf(settings_, name_));
    }
    if (connection_.open(endpoint)) {
        connectDeadline_.set(settings_.connectTimeout);
    } else {
        becomeDown(connection_.error());
    }
}

/// A hint must not be lost, since the server that is asked in the meantime may be the wrong one. Calls in flight are
/// still answered.
void Server::hasMoved(std::string_view reason) {
    backoff_.reset();
    refusesWrites_ = false;
    switch (state_) {
        case State::Handshake:
        case State::Ready:
        case State::Late:
            log_.trouble(NGX_LOG_WARN, shownName_, "is left", reason);
            moved_ = true;
            beLeaving();
            break;
        case State::Leaving:
            moved_ = true;
            break;
        case State::Connecting:
            moved_ = connection_.isOpen();
            connection_.close(reason);
            break;
        case State::Down:
            reconnect_.cancel();
            connect();
            break;
        case State::Idle:
            break;
    }
}

/// The first refusal may be due to a fail-over behind the same address.
void Server::leaveAsReadOnly() {
    if (state_ == State::Ready) {
        isExpectedUp_ = !std::exchange(refusesWrites_, true);
        beLeaving();
    }
}

/// Calls in flight are still answered.
void Server::beLeaving() {
    reconnect_.cancel();
    state_ = State::Leaving;
    unreadySince_ = nowMs();
    connectDeadline_.set(std::min(settings_.connectTimeout, settings_.timeout));  // no request waits longer for a reply
    closeIfLeft();
}

void Server::closeIfLeft() {
    if (state_ == State::Leaving && connection_.pending() == 0) {
        connection_.close(refusesWrites_ ? "it takes no writes" : "another server is asked");
    }
}

void Server::connectIfIdle() {
    if (state_ == State::Idle) {
        connect();
    }
}

bool Server::canBeAsked() {
    connectIfIdle();
    return isReady() || ((state_ == State::Connecting || state_ == State::Leaving) && isExpectedUp_);
}

void Server::send(Call& call) {
    call.server = this;
    call.isOnWire = false;
    native_.choose(call);
    call.prepare();
    if (!isReady() || (call.asking && !connection_.send(kAsking, prepared_)) || !connection_.send(call.text(), call)) {
        queued_.pushBack(call);
        return;
    }
    call.isOnWire = true;
    call.sequence = ++sent_;
    call.sentNs = nowNs();
    const bool isAgain = call.scriptMisses > 0 || call.isPart || call.leavesNative || call.leavesShort;
    counters_.sent(isAgain ? 0 : call.requests());  // counted once
}

bool Server::send(std::string_view command, ReplyTarget& target) {
    return isReady() && connection_.send(command, target);
}

void Server::replied(Call& call, const redisReply* reply) {
    if (reply == nullptr) {
        hasLostCalls_ = true;
        call.lost();
        return;
    }
    call.isOnWire = false;
    const std::uint64_t tookNs = call.tookNs = nowNs() - call.sentNs;
    counters_.latency.observe(tookNs);
    const StoreError error = checkCall(*reply);
    if (refusesWrites_ && error == StoreError::None && call.hasWritten(*reply)) {
        refusesWrites_ = false;
        backoff_.reset();
    }
    if (error == StoreError::TryAgain && !isOfSlots(replyText(*reply))) {
        notYet_ = replyText(*reply);
        if (notYet_.starts_with("LOADING")) {  // takes longer than a request may wait
            isExpectedUp_ = false;
            connection_.close(notYet_);
        }
    } else if (error != StoreError::NotMaster) {
        if (isInTime(call, tookNs)) {
            timeouts_ = 0;
            notYet_.clear();
        }
        repliedAt_ = nowMs();
    }
    const bool isMissing = error == StoreError::NoScript;
    if (call.isNative && reply->type == REDIS_REPLY_ERROR && leavesNative(call, replyText(*reply))) {
        sendInAnotherForm(call, *reply);
    } else if (isMissing && call.isRepeatable() && call.scriptMisses < kMostScriptMisses) {
        repeatWithScript(call);
    } else {
        if (isMissing && !call.isRepeatable()) {
            loadScript(call);
        }
        tell(call, *reply, error);
    }
    closeIfLeft();
}

void Server::tell(Call& call, const redisReply& reply, StoreError error) {
    owner_.answered(*this, call.hashSlot, error);
    call.answered(reply, error);
}

/// It was not executed.
void Server::sendInAnotherForm(Call& call, const redisReply& reply) {
    if (!call.isRepeatable()) {
        tell(call, reply, StoreError::TryAgain);
    } else if (call.isWanted()) {
        send(call);
    } else {
        call.lost();
    }
}

/// True if this is an error of the native module after which the call is sent in another form.
bool Server::leavesNative(Call& call, std::string_view answer) {
    switch (native_.read(call, answer)) {
        case NativeForms::Meaning::Other:
            return false;
        case NativeForms::Meaning::Another:
            return true;
        case NativeForms::Meaning::Absent:
            break;
    }
    nativeTold(false, answer);
    if (settings_.native == static_cast<ngx_uint_t>(Native::Required)) {
        connection_.close(answer);
        return false;
    }
    return true;
}

/// Possibly no request waits any more: a request may wait less than `timeout`, and none waits for a take-back.
bool Server::isInTime(const Call& call, std::uint64_t tookNs) const {
    return call.isWaitedFor() || tookNs < settings_.timeout * kNsPerMs;
}

/// NOSCRIPT: all workers of a fleet miss a script at the same time, and another one may load it in a moment, so the
/// call is repeated after a random time. If the script is still missing then, the first of all calls in flight loads
/// it; the others, which were sent before that, are only repeated after it.
void Server::repeatWithScript(Call& call) {
    if (call.scriptMisses++ == 0) {
        call.isOnWire = false;
        queued_.pushBack(call);
        if (!scriptWait_.isSet()) {
            const ngx_msec_t most = std::min<ngx_msec_t>(kSpreadMs, settings_.timeout / 2);
            scriptWait_.set(randomNumber() % (most + 1));
        }
        return;
    }
    loadScript(call);
    send(call);
}

/// Unless another call that was in flight has done so.
void Server::loadScript(const Call& call) {
    std::uint64_t& loadedAt = loadedAt_[static_cast<std::size_t>(call.algorithm)];
    if (call.sequence > loadedAt) {
        loadedAt = sent_;
        connection_.send(command({"SCRIPT", "LOAD", scriptSource(call.algorithm)}), prepared_);
    }
}

/// Calls that cannot be sent now are kept.
void Server::sendQueued() {
    List<Call, Queued> waiting;
    queued_.moveTo(waiting);
    while (Call* call = waiting.popFront()) {
        if (call->isWanted()) {
            send(*call);
        } else {
            call->lost();
        }
    }
}

void Server::timedOut(ngx_msec_t askedAt) {
    if (timeouts_++ == 0) {
        silentSince_ = askedAt;
    }
    log_.failure(shownName_, "timed out", whyNoReply());
}

std::string_view Server::whyNoReply() const {
    return notYet_.empty() ? "no answer inside \"timeout\"" : std::string_view(notYet_);
}

void Server::giveUpIfSilent() {
    if (state_ == State::Ready && timeouts_ >= kTimeoutsToGiveUp &&
        nowMs() - silentSince_ >= kSilentTimeoutsToGiveUp * settings_.timeout) {
        isExpectedUp_ = false;
        if (notYet_.empty() && isBefore(silentSince_, repliedAt_) && !isSilent()) {
            becomeLate();
        } else {
            connection_.close(std::string(whyNoReply()));
        }
    } else if ((state_ == State::Connecting || state_ == State::Handshake || state_ == State::Leaving) &&
               isExpectedUp_ && timeouts_ > 0 && nowMs() - unreadySince_ >= settings_.timeout) {
        isExpectedUp_ = false;
        state_ = state_ == State::Handshake ? State::Connecting : state_;
        loseQueued();
        owner_.serverDown(*this);
    }
}

void Server::closeAsUnreliable() {
    isExpectedUp_ = false;
    connection_.close("unexpected reply");
}

void Server::closeIfUnused() {
    if (connection_.pending() > 0) {
        return;
    }
    owner_.credentials().forget(*this);
    discovery_->stop();
    if (connection_.isOpen()) {
        connection_.close("the worker quits");
    } else if (state_ == State::Connecting) {
        state_ = State::Idle;
    }
}

void Server::connected() {
    const Credentials& credentials = owner_.credentials();
    acceptedPassword_ = credentials.version();
    handshake_.begin(connection_, credentials.authentication());
    if (!isExpectedUp_) {
        probe();
    } else if (handshake_.letsCallsFollow()) {
        state_ = State::Handshake;
        sendQueued();
        owner_.serverReady(*this);
    }
}

void Server::authenticateAgain() {
    const Credentials& credentials = owner_.credentials();
    const bool isGreeted = acceptedPassword_ != 0 && state_ != State::Leaving;
    if (isGreeted && acceptedPassword_ != credentials.version() && sentPassword_ == 0 &&
        connection_.send(credentials.authentication(), authentication_)) {
        sentPassword_ = credentials.version();
    }
}

void Server::Authentication::replied(const redisReply* reply) {
    if (reply == nullptr) {
        return;  // reported by disconnected()
    }
    const std::uint64_t sent = std::exchange(server.sentPassword_, 0);
    if (reply->type == REDIS_REPLY_ERROR) {
        server.log_.trouble(NGX_LOG_ERR, server.shownName_, "AUTH with another password answered",
                            authenticationRefusal(replyText(*reply)));
    } else {
        server.acceptedPassword_ = sent;
        server.authenticateAgain();
    }
    server.closeIfLeft();
}

/// A server that was in trouble, or whose handshake took too long, must first answer a probe within the timeout.
void Server::handshakeDone() {
    if (state_ == State::Leaving) {
        closeIfLeft();
    } else if (isExpectedUp_) {
        becomeReady();
    } else if (!probed_) {
        probe();
    }
}

void Server::probe() {
    probed_ = true;
    probedAt_ = nowMs();
    connection_.send(command({"EVALSHA", scriptSha(Algorithm::Log), "0", "0"}), probe_);
}

void Server::Probe::replied(const redisReply* reply) {
    if (reply == nullptr) {
        return;  // reported by disconnected()
    }
    const bool lacksScript = reply->type == REDIS_REPLY_ERROR && checkCall(*reply) == StoreError::NoScript;
    const bool isAnswer = lacksScript || (reply->type == REDIS_REPLY_ARRAY && reply->elements == 0);
    if (reply->type == REDIS_REPLY_ERROR && !lacksScript) {
        server.connection_.close(replyText(*reply));
    } else if (!isAnswer) {
        server.connection_.close("unexpected reply");
    } else if (nowMs() - server.probedAt_ <= server.settings_.timeout) {
        server.becomeReady();
    } else if (server.state_ != State::Late) {
        server.connection_.close(kLate);
    }
    server.repliedAt_ = nowMs();
}

// ---- a server that answers, but later than any request waits

/// No reply for as long as a connection is kept without one.
bool Server::isSilent() const {
    return nowMs() - repliedAt_ >= kSilentTimeoutsToGiveUp * settings_.timeout;
}

/// Nothing on the wire is lost, and nothing is added but a probe.
void Server::becomeLate() {
    state_ = State::Late;
    timeouts_ = 0;
    beUnavailable(kLate);
}

/// The back-off timer.
void Server::tryAgain() {
    if (state_ != State::Late) {
        connect();
    } else if (connection_.pending() > 0 && isSilent()) {
        connection_.close(std::string(whyNoReply()));
    } else {
        reconnect_.set(backoff_.next(randomNumber()));
        if (connection_.pending() == 0) {
            probe();
        }
    }
}

void Server::becomeReady() {
    connectDeadline_.cancel();
    reconnect_.cancel();
    if (!refusesWrites_) {
        backoff_.reset();
    }
    if (!isExpectedUp_ || tellsReturn_) {
        log_.recovery(shownName_);
    }
    isExpectedUp_ = true;
    tellsReturn_ = false;
    readySince_ = nowMs();
    state_ = State::Ready;
    health_.report(Reachability::Up);
    sendQueued();
    owner_.serverReady(*this);
}

void Server::disconnected(std::string_view reason) {
    connectDeadline_.cancel();
    scriptWait_.cancel();
    acceptedPassword_ = sentPassword_ = 0;
    const bool hasLostCalls = std::exchange(hasLostCalls_, false);
    const bool isLeft = state_ == State::Leaving;
    const bool wasReady = state_ == State::Ready || isLeft;
    const bool worked = wasReady && isExpectedUp_ && nowMs() - readySince_ >= settings_.reconnectMin;
    state_ = State::Idle;
    if (owner_.isLeaving()) {
        owner_.workerQuits();
        return;
    }
    if (!worked && !moved_) {
        becomeDown(reason);
        return;
    }
    if (!moved_ && !isLeft) {  // an idle timeout of a proxy is no bad news
        log_.trouble(hasLostCalls ? NGX_LOG_ERR : NGX_LOG_WARN, shownName_, "connection lost", reason);
        tellsReturn_ = hasLostCalls;
    }
    connect();
}

void Server::becomeDown(std::string_view reason) {
    state_ = State::Down;
    isExpectedUp_ = false;
    discovery_->didNotServe();
    beUnavailable(reason);
}

/// No call is sent for a while.
void Server::beUnavailable(std::string_view reason) {
    health_.report(Reachability::Down);
    log_.failure(shownName_, "is down", reason);
    reconnect_.set(backoff_.next(randomNumber()));
    loseQueued();
    owner_.serverDown(*this);
}

void Server::loseQueued() {
    while (Call* call = queued_.popFront()) {
        call->lost();
    }
}

// ---- what is told of the server

void Server::nativeTold(bool isLoaded, std::string_view answer) {
    native_.told(isLoaded);
    counters_.usesNative.store(isLoaded, std::memory_order_relaxed);
    const bool isRequired = settings_.native == static_cast<ngx_uint_t>(Native::Required);
    if (isNativeForbidden(answer) && !isRequired) {
        log_.nativeForbidden(shownName_, answer);
    }
}

void Server::tick() {
    counters_.touch(nowMs());
    if (state_ == State::Ready) {
        health_.tick(connection_);
    } else if (!isExpectedUp_) {
        health_.report(Reachability::Down);
    }
}

}  // namespace sliding_log
