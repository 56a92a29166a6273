#include "servers/server.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "redis/native_command.hpp"
#include "redis/reply.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// Why nothing is sent to a server that answers.
constexpr std::string_view kLate = "answers later than \"timeout\"";

}  // namespace

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
      handshake_(*this, settings),
      reauthentication_(*this, connection_),
      sending_(*this, connection_, counters_, settings.timeout, log.nginxLog()),
      silence_(settings.timeout),
      backoff_(settings.reconnectMin, settings.reconnectMax),
      attachment_(owner.attach()),
      connectDeadline_(
          this, [](void* self) { static_cast<Server*>(self)->connection_.close("connect timed out"); },
          Timer::Kind::Chore, log.nginxLog()),
      reconnect_(
          this, [](void* self) { static_cast<Server*>(self)->tryAgain(); }, Timer::Kind::Chore, log.nginxLog()),
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
    moved_ = false;
    probe_.forget();
    sending_.begin();
    silence_.forget();
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
    sending_.send(call);
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
        silence_.refusedForNow(replyText(*reply));
        if (silence_.reason().starts_with("LOADING")) {  // takes longer than a request may wait
            isExpectedUp_ = false;
            connection_.close(silence_.reason());
        }
    } else if (error != StoreError::NotMaster) {
        silence_.replied(call.isWaitedFor(), tookNs);
    }
    if (const std::optional<StoreError> meaning = sending_.meaningOf(call, *reply, error)) {
        owner_.answered(*this, call.hashSlot, *meaning);
        call.answered(*reply, *meaning);
    }
    closeIfLeft();
}

void Server::preparationReplied(const char* what, const redisReply* reply) {
    if (reply != nullptr && reply->type == REDIS_REPLY_ERROR) {
        log_.trouble(NGX_LOG_ERR, shownName_, what, replyText(*reply));
    }
    closeIfLeft();
}

void Server::timedOut(ngx_msec_t askedAt) {
    silence_.timedOut(askedAt);
    log_.failure(shownName_, "timed out", silence_.reason());
}

void Server::giveUpIfSilent() {
    if (state_ == State::Ready && silence_.isTooLong()) {
        isExpectedUp_ = false;
        if (silence_.isLateness()) {
            becomeLate();
        } else {
            connection_.close(std::string(silence_.reason()));
        }
    } else if ((state_ == State::Connecting || state_ == State::Handshake || state_ == State::Leaving) &&
               isExpectedUp_ && silence_.hasTimeouts() && nowMs() - unreadySince_ >= settings_.timeout) {
        isExpectedUp_ = false;
        state_ = state_ == State::Handshake ? State::Connecting : state_;
        sending_.loseWaiting();
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
    sending_.connected();
    const Credentials& credentials = owner_.credentials();
    reauthentication_.begin(credentials.version());
    handshake_.begin(connection_, credentials.authentication());
    if (!isExpectedUp_) {
        probe_.send(connection_);
    } else if (handshake_.letsCallsFollow()) {
        state_ = State::Handshake;
        sending_.sendWaiting();
        owner_.serverReady(*this);
    }
}

void Server::authenticateAgain() {
    if (state_ != State::Leaving) {
        reauthentication_.again(owner_.credentials());
    }
}

void Server::authenticatedAgain() {
    authenticateAgain();
    closeIfLeft();
}

void Server::authenticationRefused(std::string_view answer) {
    log_.trouble(NGX_LOG_ERR, shownName_, "AUTH with another password answered", answer);
    closeIfLeft();
}

/// A server that was in trouble, or whose handshake took too long, must first answer a probe within the timeout.
void Server::handshakeDone() {
    if (state_ == State::Leaving) {
        closeIfLeft();
    } else if (isExpectedUp_) {
        becomeReady();
    } else if (!probe_.wasSent()) {
        probe_.send(connection_);
    }
}

void Server::probeAnswered(ngx_msec_t tookMs) {
    if (tookMs <= settings_.timeout) {
        becomeReady();
    } else if (state_ != State::Late) {
        connection_.close(kLate);
    }
    silence_.heard();
}

void Server::probeRefused(std::string_view reason) {
    connection_.close(reason);
    silence_.heard();
}

// ---- a server that answers, but later than any request waits

/// Nothing on the wire is lost, and nothing is added but a probe.
void Server::becomeLate() {
    state_ = State::Late;
    silence_.forgetTimeouts();
    beUnavailable(kLate);
}

/// The back-off timer.
void Server::tryAgain() {
    if (state_ != State::Late) {
        connect();
    } else if (connection_.pending() > 0 && silence_.isComplete()) {
        connection_.close(std::string(silence_.reason()));
    } else {
        reconnect_.set(backoff_.next(randomNumber()));
        if (connection_.pending() == 0) {
            probe_.send(connection_);
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
    sending_.sendWaiting();
    owner_.serverReady(*this);
}

void Server::disconnected(std::string_view reason) {
    connectDeadline_.cancel();
    reconnect_.cancel();  // set while the server was late; a worker that quits may connect before it
    sending_.end();
    reauthentication_.end();
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
    sending_.loseWaiting();
    owner_.serverDown(*this);
}

// ---- what is told of the server

void Server::nativeTold(bool isLoaded, std::string_view answer) {
    sending_.nativeTold(isLoaded);
    counters_.usesNative.store(isLoaded, std::memory_order_relaxed);
    const bool isRequired = settings_.native == static_cast<ngx_uint_t>(Native::Required);
    if (isNativeForbidden(answer) && !isRequired) {
        log_.nativeForbidden(shownName_, answer);
    }
}

bool Server::nativeIsAbsent(std::string_view answer) {
    nativeTold(false, answer);
    if (settings_.native == static_cast<ngx_uint_t>(Native::Required)) {
        connection_.close(answer);
        return false;
    }
    return true;
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
