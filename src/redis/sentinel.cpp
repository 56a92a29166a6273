#include "redis/sentinel.hpp"

#include <utility>

#include "redis/handshake.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kSwitched = "+switch-master";

/// Published by the Sentinel that leads a fail-over when the new master has been promoted. It publishes kSwitched only
/// when the other replicas follow the new master, a second or more later for each.
constexpr std::string_view kPromoted = "+promoted-slave";

/// The same message is ignored for this time: acting on it means to ask and to subscribe again.
constexpr ngx_msec_t kSameMessageMs = 1000;

/// The name of the master that the event is about.
std::string_view masterIn(std::string_view event, std::string_view text) {
    if (event == kPromoted) {
        const std::size_t at = text.find(" @ ");
        text.remove_prefix(at == std::string_view::npos ? text.size() : at + 3);
    }
    return text.substr(0, text.find(' '));
}

bool isText(const redisReply* reply) {
    return reply != nullptr && reply->type == REDIS_REPLY_STRING;
}

}  // namespace

SentinelDiscovery::SentinelDiscovery(const RedisSettings& settings, ngx_log_t* log)
    : settings_(settings),
      log_(log),
      authenticate_(authentication(view(settings.sentinelUsername), view(settings.sentinelPassword))),
      where_(command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", view(settings.master)})),
      backoff_(settings.reconnectMin, settings.reconnectMax),
      deadline_(
          this, [](void* self) { static_cast<SentinelDiscovery*>(self)->connection_.close("timed out"); },
          Timer::Kind::Chore, log),
      again_(
          this, [](void* self) { static_cast<SentinelDiscovery*>(self)->begin(); }, Timer::Kind::Chore, log),
      connection_(*this, settings.tlsContext, log) {
    const auto* servers = static_cast<const ServerSettings*>(settings.servers.elts);
    for (ngx_uint_t i = 0; i < settings.servers.nelts; i++) {
        sentinels_.push_back(std::make_unique<Addresses>(settings, servers[i]));
    }
    next_ = randomNumber() % sentinels_.size();  // distributes workers over the Sentinels
}

void SentinelDiscovery::discover(DiscoveryTarget& target) {
    target_ = waiting_ = &target;
    begin();
}

/// Another Sentinel may have newer information, and the name of the master may have another address.
void SentinelDiscovery::didNotServe() {
    next_ = asked_ + 1;
    if (named_ != nullptr) {
        named_->didNotServe();
    }
}

void SentinelDiscovery::stop() {
    quitting_ = true;
    waiting_ = target_ = nullptr;
    again_.cancel();
    sentinels_[asked_]->stop();
    stopNaming();
    connection_.close("the worker quits");
}

/// Starts a search with a new connection: the previous one is subscribed and cannot ask.
void SentinelDiscovery::begin() {
    again_.cancel();
    stopNaming();
    tried_ = 0;
    reasons_.clear();
    if (connection_.isOpen()) {
        restarts_ = true;
        connection_.close("the master is looked for again");
    } else if (state_ == State::Idle || state_ == State::Watching) {
        ask();
    }
}

void SentinelDiscovery::ask() {
    state_ = State::Looking;
    asked_ = next_ % sentinels_.size();
    sentinels_[asked_]->discover(*this);
}

void SentinelDiscovery::discovered(const Endpoint& endpoint) {
    if (state_ == State::Naming) {
        found(endpoint);
    } else if (connection_.open(endpoint)) {
        deadline_.set(settings_.connectTimeout);
    } else {
        tryNext(connection_.error());
    }
}

void SentinelDiscovery::notDiscovered(std::string_view reason) {
    if (state_ == State::Naming) {
        connection_.close(reason);
    } else {
        tryNext(reason);
    }
}

void SentinelDiscovery::connected() {
    state_ = State::Asking;
    authenticated_ = authenticate_.empty();
    hearsSwitches_ = false;
    if (!authenticated_) {
        connection_.send(authenticate_, *this);
    }
    connection_.send(where_, *this);
    connection_.subscribe(kSwitched, messages_);
    if (hearsPromotions_) {
        connection_.subscribe(kPromoted, messages_);
    }
}

void SentinelDiscovery::replied(const redisReply* reply) {
    if (reply == nullptr) {
        return;  // disconnected() follows
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        const std::string_view message = replyText(*reply);
        connection_.close(authenticated_ ? message : authenticationRefusal(message));
    } else if (!std::exchange(authenticated_, true)) {
        return;
    } else {
        answeredWhere(*reply);
    }
}

void SentinelDiscovery::answeredWhere(const redisReply& reply) {
    const bool isAddress =
        reply.type == REDIS_REPLY_ARRAY && reply.elements == 2 && isText(reply.element[0]) && isText(reply.element[1]);
    const std::optional<int> port = isAddress ? parsePort(replyText(*reply.element[1])) : std::nullopt;
    if (!port || !isHost(replyText(*reply.element[0]))) {
        connection_.close("it does not know the master");
        return;
    }
    state_ = State::Naming;
    const std::string_view host = replyText(*reply.element[0]);
    if (std::string name = hostAndPort(host, *port); name != name_) {
        named_ = std::make_unique<Addresses>(settings_, host, *port);
        name_ = std::move(name);
    }
    named_->discover(*this);
}

void SentinelDiscovery::stopNaming() {
    if (named_ != nullptr) {
        named_->stop();
    }
}

void SentinelDiscovery::found(const Endpoint& master) {
    const bool isAnother = master_ != master;
    DiscoveryTarget* waiting = std::exchange(waiting_, nullptr);
    master_ = master;
    deadline_.cancel();
    backoff_.reset();
    state_ = State::Watching;
    if (quitting_) {
        connection_.close("the worker quits");
    }
    if (waiting != nullptr) {
        waiting->discovered(master);
    } else if (isAnother && target_ != nullptr) {
        target_->hasMoved("a Sentinel names another master");
    }
}

void SentinelDiscovery::Messages::replied(const redisReply* message) {
    if (message != nullptr) {
        discovery.heard(*message);
    }
}

/// `+switch-master`: name, old address and port, new address and port. `+promoted-slave`: the promoted server, an `@`,
/// and the name, address and port of the master. The Sentinel that sent it is asked next.
void SentinelDiscovery::heard(const redisReply& message) {
    if (message.type != REDIS_REPLY_ARRAY || message.elements != 3 || !isText(message.element[1]) ||
        !isText(message.element[2])) {
        hearsSwitches_ = true;  // the confirmation of the subscription
        return;
    }
    const std::string_view event = replyText(*message.element[1]);
    const std::string_view text = replyText(*message.element[2]);
    const bool isNews = text != heard_ || nowMs() - heardAt_ >= kSameMessageMs;
    if (masterIn(event, text) != view(settings_.master) || target_ == nullptr || !isNews) {
        return;
    }
    heard_ = text;
    heardAt_ = nowMs();
    next_ = asked_;
    if (state_ == State::Watching) {
        target_->hasMoved(event == kPromoted ? kPromoted : kSwitched);  // may free the reply
    } else {
        stopNaming();
        begin();
    }
}

void SentinelDiscovery::disconnected(std::string_view reason) {
    deadline_.cancel();
    if (quitting_ && waiting_ == nullptr) {
        state_ = State::Idle;
    } else if (std::exchange(restarts_, false)) {
        ask();
    } else if (hearsPromotions_ && hearsSwitches_ && reason.starts_with("NOPERM")) {
        doWithoutPromotions(reason);
    } else {
        tryNext(reason);
    }
}

/// The user has no permission for this channel, as documented for older versions.
void SentinelDiscovery::doWithoutPromotions(std::string_view refusal) {
    hearsPromotions_ = false;
    if (workerNumber() == 0) {
        const ngx_str_t text = toNgx(refusal);
        ngx_log_error(
            NGX_LOG_ERR, log_, 0,
            "sliding_log_redis \"%V\": SUBSCRIBE %*s answered: %V; the Sentinel that leads a fail-over tells of "
            "it later",
            &settings_.name, kPromoted.size(), kPromoted.data(), &text);
    }
    stopNaming();
    next_ = asked_;
    ask();
}

/// One reason must not hide another: a Sentinel that is away hides that the password is wrong.
void SentinelDiscovery::addReason(std::string_view reason) {
    constexpr std::size_t kMostBytes = 1000;
    if (reasons_.find(reason) == std::string::npos && reasons_.size() + reason.size() < kMostBytes) {
        reasons_.append(reasons_.empty() ? "" : ", ").append(reason);
    }
}

/// The current Sentinel does not work. If none does, the waiting target is informed; a watch begins again after a
/// while.
void SentinelDiscovery::tryNext(std::string_view reason) {
    const bool wasWatching = state_ == State::Watching;
    addReason(reason);
    stopNaming();
    state_ = State::Idle;
    sentinels_[asked_]->didNotServe();
    next_ = asked_ + 1;
    if (wasWatching) {
        tried_ = 0;
    }
    if (++tried_ < sentinels_.size() && !wasWatching) {
        ask();
        return;
    }
    DiscoveryTarget* waiting = std::exchange(waiting_, nullptr);
    if (waiting != nullptr && !master_) {
        waiting->notDiscovered(std::string("no Sentinel knows the master: ").append(reasons_));
        return;
    }
    again_.set(backoff_.next(randomNumber()));
    if (waiting != nullptr) {
        waiting->discovered(*master_);
    }
}

void SentinelDiscovery::workerQuits() {
    quitting_ = true;
    if (waiting_ == nullptr) {
        stop();
    }
}

}  // namespace sliding_log
