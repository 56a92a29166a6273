#include "store/node.hpp"

#include <utility>

#include "redis/reply.hpp"
#include "redis/resp.hpp"

namespace sliding_log {

namespace {

/// A connection is given up after this many timeouts without a reply between them, and so long a silence.
constexpr unsigned kTimeoutsToGiveUp = 3;
constexpr unsigned kSilentTimeoutsToGiveUp = 2;

/// How often one call is sent again on NOSCRIPT: more means that the server does not keep scripts at all.
constexpr unsigned kMostRepetitions = 3;

/// LOADING, BUSY, TRYAGAIN: asked again after so many ms, inside the timeout.
constexpr ngx_msec_t kRepeatAfterMs = 10;

}  // namespace

void Node::ScriptsReloaded::replied(const redisReply* reply) {
    if (reply != nullptr && reply->type == REDIS_REPLY_ERROR) {
        node.log_.trouble(NGX_LOG_ERR, node.name_, "SCRIPT LOAD answered", replyText(*reply));
    }
    node.closeIfLeft();
}

Node::Node(NodeOwner& owner, StoreLog& log, const RedisSettings& settings, std::string_view name,
           std::unique_ptr<Locator> locator)
    : owner_(owner),
      log_(log),
      settings_(settings),
      name_(name),
      locator_(std::move(locator)),
      greeting_(*this, {std::string(view(settings.username)), std::string(view(settings.password)), settings.database,
                        settings.mode == static_cast<ngx_uint_t>(Mode::Sentinel)}),
      backoff_(settings.reconnectMin, settings.reconnectMax),
      connectDeadline_(
          this, [](void* self) { static_cast<Node*>(self)->connection_.close("connect timed out"); },
          Timer::Kind::Chore, log.nginxLog()),
      reconnect_(
          this, [](void* self) { static_cast<Node*>(self)->connect(); }, Timer::Kind::Chore, log.nginxLog()),
      repeat_(
          this, [](void* self) { static_cast<Node*>(self)->repeatQueued(); }, Timer::Kind::Chore, log.nginxLog()),
      connection_(*this, log.nginxLog()) {}

/// Calls that its connection takes along fail, and are not sent again.
Node::~Node() {
    state_ = State::Down;
}

void Node::connect() {
    state_ = State::Connecting;
    timeouts_ = 0;
    scriptsSent_ = sent_;
    locator_->locate(*this);
}

void Node::located(const Endpoint& endpoint) {
    if (connection_.open(endpoint)) {
        connectDeadline_.set(settings_.connectTimeout);
    } else {
        becomeDown(connection_.error());
    }
}

/// Calls on the wire are still answered, be it with READONLY; then the server that is right now is asked.
void Node::hasMoved(std::string_view reason) {
    if (state_ == State::Ready) {
        log_.trouble(NGX_LOG_WARN, name_, "is left", reason);
        state_ = State::Leaving;
        connectDeadline_.set(settings_.connectTimeout);
        closeIfLeft();
    } else if (state_ == State::Down) {
        reconnect_.cancel();
        connect();
    }
}

void Node::closeIfLeft() {
    if (state_ == State::Leaving && connection_.pending() == 0) {
        connection_.close("another server is asked");
    }
}

bool Node::canBeAsked() {
    if (state_ == State::Idle) {
        connect();
    }
    return state_ == State::Ready || ((state_ == State::Connecting || state_ == State::Leaving) && trusted_);
}

void Node::send(Call& call) {
    call.node = this;
    if (state_ == State::Ready && connection_.send(call.command, call)) {
        call.sequence = ++sent_;
    } else {
        queued_.pushBack(call);
    }
}

void Node::replied(Call& call, const redisReply* reply) {
    if (reply == nullptr) {
        owner_.failed(call, StoreError::Down);
        return;
    }
    switch (const StoreError error = checkCall(*reply)) {
        case StoreError::TryAgain:
            repeatSoon(call);
            break;
        case StoreError::NotMaster:
            repeatElsewhere(call, *reply);
            break;
        default:
            timeouts_ = 0;
            if (error == StoreError::NoScript && call.repetitions < kMostRepetitions) {
                repeatWithScript(call);
            } else {
                owner_.answered(call, *reply);
            }
    }
    closeIfLeft();
}

/// NOSCRIPT: of all the calls in flight the first one has the scripts loaded; the others, sent before that, only
/// follow them on the wire.
void Node::repeatWithScript(Call& call) {
    call.repetitions++;
    if (call.sequence > scriptsSent_) {
        scriptsSent_ = sent_;
        for (Script script : kScripts) {
            connection_.send(command({"SCRIPT", "LOAD", scriptSource(script)}), scriptsReloaded_);
        }
    }
    send(call);
}

/// An undo has no deadline of its own: it is given as long as a decision would have.
bool Node::mayRepeat(Call& call) const {
    return call.isUndo() ? call.repetitions++ * kRepeatAfterMs < settings_.timeout : call.isWaitedFor();
}

void Node::repeatSoon(Call& call) {
    if (!mayRepeat(call)) {
        owner_.failed(call, StoreError::TryAgain);
        return;
    }
    queued_.pushBack(call);
    if (!repeat_.isSet()) {
        repeat_.set(kRepeatAfterMs);
    }
}

/// A server that takes no writes has logged nothing.
void Node::repeatElsewhere(Call& call, const redisReply& reply) {
    if (!mayRepeat(call)) {
        owner_.answered(call, reply);
        return;
    }
    const std::string_view answer = reply.type == REDIS_REPLY_ERROR ? replyText(reply) : "READONLY";
    log_.trouble(NGX_LOG_ERR, name_, "answered", answer);
    queued_.pushBack(call);
    hasMoved(answer);
}

void Node::repeatQueued() {
    List<Call, Queued> again;
    while (Call* call = queued_.popFront()) {
        again.pushBack(*call);
    }
    while (Call* call = again.popFront()) {
        send(*call);
    }
}

void Node::timedOut(ngx_msec_t askedAt) {
    if (timeouts_++ == 0) {
        silentSince_ = askedAt;
    }
}

void Node::giveUpIfSilent() {
    if (state_ == State::Ready && timeouts_ >= kTimeoutsToGiveUp &&
        ngx_current_msec - silentSince_ >= kSilentTimeoutsToGiveUp * settings_.timeout) {
        trusted_ = false;
        connection_.close("no answer to several calls in a row");
    }
}

void Node::closeIfUnused() {
    if (connection_.pending() > 0) {
        return;
    }
    locator_->stop();
    if (connection_.isOpen()) {
        connection_.close("the worker quits");
    } else if (state_ == State::Connecting) {
        state_ = State::Idle;
    }
}

void Node::connected() {
    greeting_.begin(connection_);
}

void Node::greeted() {
    connectDeadline_.cancel();
    backoff_.reset();
    if (!trusted_) {
        log_.recovery(name_);
    }
    trusted_ = true;
    readySince_ = ngx_current_msec;
    state_ = State::Ready;
    repeatQueued();
    owner_.nodeReady(*this);
}

void Node::disconnected(std::string_view reason) {
    connectDeadline_.cancel();
    const bool wasReady = state_ == State::Ready || state_ == State::Leaving;
    const bool worked = wasReady && trusted_ && ngx_current_msec - readySince_ >= settings_.reconnectMin;
    state_ = State::Idle;
    if (owner_.isLeaving()) {
        owner_.workerQuits();
        return;
    }
    if (worked) {
        log_.trouble(NGX_LOG_WARN, name_, "connection lost", reason);
        connect();
    } else {
        becomeDown(reason);
    }
}

void Node::becomeDown(std::string_view reason) {
    state_ = State::Down;
    trusted_ = false;
    locator_->didNotServe();
    log_.trouble(NGX_LOG_ERR, name_, "is down", reason);
    reconnect_.set(backoff_.next(static_cast<std::uint64_t>(ngx_random())));
    while (Call* call = queued_.popFront()) {
        owner_.failed(*call, StoreError::Down);
    }
    owner_.nodeDown(*this);
}

}  // namespace sliding_log
