#include "store/redis_store.hpp"

#include <algorithm>

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

bool hasPassed(ngx_msec_t moment) { return static_cast<ngx_msec_int_t>(moment - ngx_current_msec) <= 0; }

std::int64_t wallClockMs() {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::int64_t>(now->sec) * 1000 + static_cast<std::int64_t>(now->msec);
}

}  // namespace

void Call::replied(const redisReply* reply) { store.replied(*this, reply); }

void RedisStore::ScriptsReloaded::replied(const redisReply* reply) {
    if (reply != nullptr && reply->type == REDIS_REPLY_ERROR) {
        store.report(NGX_LOG_ERR, "SCRIPT LOAD answered", replyText(*reply));
    }
}

RedisStore::RedisStore(const RedisSettings& settings, ngx_log_t* log)
    : settings_(settings),
      log_(log),
      endpoints_(endpointsOf(settings)),
      greeting_(*this, {std::string(view(settings.username)), std::string(view(settings.password)), settings.database}),
      backoff_(settings.reconnectMin, settings.reconnectMax),
      deadline_(this, [](void* self) { static_cast<RedisStore*>(self)->expire(); }, Timer::Kind::Work, log),
      connectDeadline_(
          this, [](void* self) { static_cast<RedisStore*>(self)->connection_.close("connect timed out"); },
          Timer::Kind::Chore, log),
      reconnect_(this, [](void* self) { static_cast<RedisStore*>(self)->connect(); }, Timer::Kind::Chore, log),
      repeat_(this, [](void* self) { static_cast<RedisStore*>(self)->repeatQueued(); }, Timer::Kind::Chore, log),
      connection_(*this, log) {}

/// A dying worker resumes nothing: whoever still waits is forgotten before hiredis tells the calls.
RedisStore::~RedisStore() {
    for (const std::unique_ptr<Call>& call : calls_) {
        if (call->waiter != nullptr) {
            call->waiter->forget();
        }
        static_cast<ListHook<WithDeadline>&>(*call).unlink();
        static_cast<ListHook<Queued>&>(*call).unlink();
        call->settled = true;
    }
    quitting_ = false;
}

void RedisStore::start() { connect(); }

bool RedisStore::ask(std::span<const Question> questions, std::string_view unique, Waiter& waiter) {
    if (!canBeAsked()) {
        return false;
    }
    Call& call = begin(Script::SlidingLog, &waiter);
    std::string& out = call.command;
    beginCommand(out, 3 + questions.size() + 2 + 5 * questions.size());
    appendArgument(out, "EVALSHA");
    appendArgument(out, scriptSha(call.script));
    appendArgument(out, static_cast<std::int64_t>(questions.size()));
    for (const Question& question : questions) {
        appendArgument(out, question.key);
    }
    if (settings_.clock == static_cast<ngx_uint_t>(Clock::Nginx)) {
        appendArgument(out, wallClockMs());
    } else {
        appendArgument(out, "");
    }
    appendArgument(out, unique);
    for (const Question& question : questions) {
        appendArgument(out, question.limit);
        appendArgument(out, question.windowMs);
        appendArgument(out, question.cap);
        appendArgument(out, question.ttlMs);
        appendArgument(out, question.id);
    }
    dispatch(call);
    return true;
}

void RedisStore::takeBack(std::span<const Question> questions, std::string_view unique) {
    if (!canBeAsked()) {
        report(NGX_LOG_ERR, "an admission could not be taken back", "no connection");
        return;
    }
    Call& call = begin(Script::SlidingLogUndo, nullptr);
    std::string& out = call.command;
    beginCommand(out, 3 + questions.size() + 1 + questions.size());
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

Call& RedisStore::begin(Script script, Waiter* waiter) {
    if (free_.empty()) {
        calls_.push_back(std::make_unique<Call>(*this));
        free_.push_back(calls_.back().get());
        free_.reserve(calls_.size());  // so that recycle() never allocates
    }
    Call& call = *free_.back();
    free_.pop_back();
    call.script = script;
    call.command.clear();
    call.repetitions = 0;
    call.settled = false;
    call.deadline = ngx_current_msec + settings_.timeout;
    call.waiter = waiter;
    if (waiter != nullptr) {
        waiter->call = &call;
    }
    deadlines_.pushBack(call);
    if (!deadline_.isSet()) {
        deadline_.set(settings_.timeout);
    }
    return call;
}

void RedisStore::dispatch(Call& call) {
    if (state_ == State::Ready && connection_.send(call.command, call)) {
        call.sequence = ++sent_;
    } else {
        queued_.pushBack(call);
    }
}

void RedisStore::replied(Call& call, const redisReply* reply) {
    if (call.settled) {
        timeouts_ = reply != nullptr ? 0 : timeouts_;
        recycle(call);
        return;
    }
    StoreError error = StoreError::Down;
    if (reply != nullptr && call.script == Script::SlidingLog && call.waiter != nullptr) {
        error = decodeVerdicts(*reply, call.waiter->verdicts);
    } else if (reply != nullptr) {
        error = reply->type == REDIS_REPLY_ERROR ? classifyError(replyText(*reply)) : StoreError::None;
    }
    if (error == StoreError::TryAgain) {
        repeatSoon(call);
        return;
    }
    timeouts_ = 0;
    if (error == StoreError::NoScript && call.repetitions < kMostRepetitions) {
        repeatWithScript(call);
        return;
    }
    if (error == StoreError::Unexpected) {
        report(NGX_LOG_ERR, "unexpected reply", "");
    } else if (reply != nullptr && error != StoreError::None) {
        report(NGX_LOG_ERR, "answered", replyText(*reply));
    }
    settle(call, error);
    recycle(call);
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

void RedisStore::repeatSoon(Call& call) {
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
    static_cast<ListHook<WithDeadline>&>(call).unlink();
    call.settled = true;
    if (Waiter* waiter = call.waiter) {
        waiter->forget();
        waiter->wake(*waiter, error);
    }
}

void RedisStore::recycle(Call& call) {
    free_.push_back(&call);
    closeWhenUnused();
}

/// All calls wait equally long, so they expire in the order of deadlines_. A call on the wire keeps its place there
/// until its reply comes, or the connection is given up.
void RedisStore::expire() {
    while (!deadlines_.isEmpty() && hasPassed(deadlines_.front().deadline)) {
        Call& call = deadlines_.front();
        if (timeouts_++ == 0) {
            silentSince_ = call.deadline - settings_.timeout;
        }
        report(NGX_LOG_ERR, "timed out", "no answer inside \"timeout\"");
        settle(call, StoreError::Timeout);
        ListHook<Queued>& inQueue = call;
        if (inQueue.isLinked()) {
            inQueue.unlink();
            recycle(call);
        }
    }
    if (state_ == State::Ready && timeouts_ >= kTimeoutsToGiveUp &&
        ngx_current_msec - silentSince_ >= kSilentTimeoutsToGiveUp * settings_.timeout) {
        trusted_ = false;
        connection_.close("no answer to several calls in a row");
    }
    if (!deadlines_.isEmpty()) {
        deadline_.set(deadlines_.front().deadline - ngx_current_msec);
    }
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

void RedisStore::connected() { greeting_.begin(connection_); }

void RedisStore::greeted() {
    connectDeadline_.cancel();
    backoff_.reset();
    if (!trusted_) {
        ngx_log_error(NGX_LOG_NOTICE, log_, 0, "sliding_log_redis \"%V\" (%V): connected again", &settings_.name,
                      &settings_.server);
    }
    trusted_ = true;
    readySince_ = ngx_current_msec;
    state_ = State::Ready;
    repeatQueued();
}

void RedisStore::greetingRefused(std::string_view reason) { connection_.close(reason); }

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
    if (quitting_ && queued_.isEmpty()) {
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
        recycle(*call);
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
