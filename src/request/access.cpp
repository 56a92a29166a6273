#include "request/access.hpp"

#include <algorithm>
#include <exception>

#include "limit/key.hpp"
#include "limit/number.hpp"
#include "redis/slots.hpp"
#include "request/context.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

const LocationSettings& settingsOf(ngx_http_request_t* request) {
    return *static_cast<const LocationSettings*>(ngx_http_get_module_loc_conf(request, ngx_http_sliding_log_module));
}

// ---- which limits apply

enum class Applies { Yes, No, Invalid, NoMemory };

/// Evaluates the directive's variables for this request. Invalid: the limit is no number; that is logged.
Applies evaluate(ngx_http_request_t* request, const LimitSettings& settings, Decision& decision, Question& question) {
    ngx_str_t value;
    if (ngx_http_complex_value(request, settings.key, &value) != NGX_OK) {
        return Applies::NoMemory;
    }
    if (value.len == 0) {
        return Applies::No;
    }
    const LogSettings& log = *settings.log;
    decision = {&settings, settings.limit, log.redis == nullptr ? Source::Local : Source::Redis, nullptr, 0};
    if (settings.limitVariable != nullptr) {
        ngx_str_t text;
        if (ngx_http_complex_value(request, settings.limitVariable, &text) != NGX_OK) {
            return Applies::NoMemory;
        }
        if (text.len == 0) {
            return Applies::No;
        }
        const std::optional<std::int64_t> number = parseCount(view(text));
        if (!number) {
            ngx_log_error(NGX_LOG_ERR, request->connection->log, 0,
                          "limit \"%V\": invalid \"limit\" value \"%V\", expected a whole number from 0 to %L",
                          &log.name, &text, kLargestCount);
            return Applies::Invalid;
        }
        // a log never holds more than its cap, so a larger limit would never deny
        decision.limit = log.cap > 0 ? std::min(*number, log.cap) : *number;
    }

    const std::string_view prefix = log.redis == nullptr ? std::string_view() : view(log.redis->prefix);
    const std::string_view name = view(log.name);
    auto* key = static_cast<char*>(ngx_pnalloc(request->pool, logKeyCapacity(prefix, name)));
    if (key == nullptr) {
        return Applies::NoMemory;
    }
    question.key = {key, writeLogKey(key, prefix, name, view(value))};
    if (log.redis != nullptr && log.redis->mode == static_cast<ngx_uint_t>(Mode::Cluster)) {
        question.slot = slotOf(question.key);
    }
    question.limit = decision.limit;
    question.algorithm = log.algorithm;
    question.keepsDenials = !log.takenBack;
    question.windowMs = log.windowMs;
    question.cap = log.cap;
    question.ttlMs = log.ttlMs();

    if (settings.id != nullptr) {
        ngx_str_t id;
        if (ngx_http_complex_value(request, settings.id, &id) != NGX_OK) {
            return Applies::NoMemory;
        }
        question.named = true;
        question.id = view(id);
        if (id.len > kLongestPlainValue) {  // a client must not fill Redis with long names here either
            auto* hashed = static_cast<char*>(ngx_pnalloc(request->pool, kHashedLength));
            if (hashed == nullptr) {
                return Applies::NoMemory;
            }
            writeHashed(hashed, view(id));
            question.id = {hashed, kHashedLength};
        }
    }
    return Applies::Yes;
}

/// Where a limit is asked: limits of one place are asked in one call. A store, in a cluster a slot, and a script. The
/// local store comes first, since what it denies costs no round trip.
std::size_t placeOf(const Round& round, std::size_t limit) {
    const RedisSettings* redis = round.decisions[limit].settings->log->redis;
    if (redis == nullptr) {
        return 0;
    }
    const Question& question = round.questions[limit];
    return ((redis->index + 1) * kSlots + question.slot) << 8 | static_cast<std::size_t>(question.algorithm);
}

/// Moves the limits of one place next to each other; their order stays otherwise.
void groupByPlace(Round& round) {
    for (std::size_t i = 1; i < round.count; i++) {
        for (std::size_t to = i; to > 0 && placeOf(round, to - 1) > placeOf(round, to); to--) {
            std::swap(round.decisions[to - 1], round.decisions[to]);
            std::swap(round.questions[to - 1], round.questions[to]);
        }
    }
}

/// Collects what this location asks of the request and was not asked before.
/// NGX_OK: context->round is new. NGX_DECLINED: nothing to ask.
ngx_int_t beginRound(ngx_http_request_t* request, const LocationSettings& location, Context*& context) {
    const std::size_t most = location.limits->nelts;
    const auto* const* limits = static_cast<const LimitSettings* const*>(location.limits->elts);
    Round round{};
    for (std::size_t i = 0; i < most; i++) {
        if (context != nullptr && context->hasAsked(*limits[i]->log)) {
            continue;
        }
        if (round.decisions == nullptr) {
            round.decisions = poolNew<Decision>(request->pool, most);
            round.questions = poolNew<Question>(request->pool, most);
            round.verdicts = poolNew<Verdict>(request->pool, most);
            if (round.decisions == nullptr || round.questions == nullptr || round.verdicts == nullptr) {
                return NGX_ERROR;
            }
        }
        switch (evaluate(request, *limits[i], round.decisions[round.count], round.questions[round.count])) {
            case Applies::NoMemory:
                return NGX_ERROR;
            case Applies::No:
                break;
            case Applies::Invalid:
                round.decisions[round.count] = {limits[i], Decision::kUnknownLimit, Source::Error, nullptr, 0};
                round.count++;
                break;
            case Applies::Yes:
                round.count++;
                break;
        }
    }
    if (round.count == 0) {
        return NGX_DECLINED;
    }
    groupByPlace(round);
    if (context == nullptr) {
        context = Context::create(request);
        if (context == nullptr) {
            return NGX_ERROR;
        }
        const std::string_view unique = gWorker->uniqueIds().next();
        context->uniqueLength = unique.copy(context->unique.data(), context->unique.size());
    }
    auto* kept = poolNew<Round>(request->pool);
    if (kept == nullptr) {
        return NGX_ERROR;
    }
    *kept = round;
    kept->previous = context->round;
    context->round = kept;
    context->stageBegin = context->stageEnd = 0;
    context->fields = location.fields;
    return NGX_OK;
}

// ---- asking

/// The store's answer: noted here, acted on when the phases run again. Called from Redis's callbacks, where no
/// request may run.
void noteAnswer(Waiter& waiter, StoreError error) {
    auto& context = static_cast<Context&>(waiter);
    context.error = error;
    context.state = Context::State::Answered;
    context.waited += ngx_current_msec - context.askedAt;
    ngx_post_event(context.request->connection->write, &ngx_posted_events);
}

/// True when a limit that no store could tell of denies the request, whatever the others say.
bool isDeniedUnknown(const LocationSettings& location, const Round& round) {
    return location.onError != static_cast<ngx_uint_t>(OnError::Allow) &&
           std::ranges::any_of(round.all(), [](const Decision& each) { return each.source == Source::Error; });
}

/// Takes the stage's verdicts over into its decisions; true when one of them denies.
bool takeVerdicts(Context& context, Source source) {
    bool denied = false;
    for (std::size_t i = context.stageBegin; i < context.stageEnd; i++) {
        Decision& decision = context.round->decisions[i];
        decision.source = source;
        decision.verdict = &context.round->verdicts[i];
        decision.loggedMs = context.loggedMs;
        denied = denied || decision.isDenied();
    }
    return denied;
}

/// Asks this node's own logs for [stageBegin, stageEnd); true when one denies. `nodes` share each limit.
bool askLocally(Context& context, ngx_uint_t nodes) {
    Round& round = *context.round;
    const std::size_t count = context.stageEnd - context.stageBegin;
    const std::span<Question> questions(round.questions + context.stageBegin, count);
    const std::span<Verdict> verdicts(round.verdicts + context.stageBegin, count);
    const std::span<Decision> decisions(round.decisions + context.stageBegin, count);
    const auto share = static_cast<std::int64_t>(nodes);
    for (std::size_t i = 0; i < count; i++) {
        decisions[i].limit = questions[i].limit = (questions[i].limit + share - 1) / share;
    }
    std::uint64_t loggedMs = 0;
    const bool answered = gWorker->local().ask(questions, verdicts, loggedMs);
    bool denied = false;
    for (std::size_t i = 0; i < count; i++) {
        decisions[i].source = answered ? Source::Local : Source::Error;
        decisions[i].verdict = answered ? &verdicts[i] : nullptr;
        decisions[i].loggedMs = loggedMs;
        denied = denied || decisions[i].isDenied();
    }
    return denied;
}

/// What decides where a Redis cannot; true when it denies.
bool decideInstead(const LocationSettings& location, Context& context) {
    if (location.onError == static_cast<ngx_uint_t>(OnError::Local)) {
        return askLocally(context, location.nodes);
    }
    for (std::size_t i = context.stageBegin; i < context.stageEnd; i++) {
        context.round->decisions[i].source = Source::Error;
    }
    return false;
}

/// Sets [stageBegin, stageEnd) to the next limits that one call asks; false when there are none.
bool nextStage(Context& context) {
    const Round& round = *context.round;
    context.stageBegin = context.stageEnd;
    while (context.stageBegin < round.count && round.decisions[context.stageBegin].source == Source::Error) {
        context.stageBegin++;
    }
    context.stageEnd = context.stageBegin;
    while (context.stageEnd < round.count && round.decisions[context.stageEnd].source != Source::Error &&
           placeOf(round, context.stageEnd) == placeOf(round, context.stageBegin)) {
        context.stageEnd++;
    }
    return context.stageEnd > context.stageBegin;
}

enum class Asked { Admitted, Denied, Waiting };

/// Asks stage after stage until one denies or has to be waited for. Admitted: nothing is left to ask.
Asked askFurther(const LocationSettings& location, Context& context) {
    const Round& round = *context.round;
    while (!isDeniedUnknown(location, round) && nextStage(context)) {
        const std::size_t count = context.stageEnd - context.stageBegin;
        const RedisSettings* redis = round.decisions[context.stageBegin].settings->log->redis;
        if (redis == nullptr) {
            if (askLocally(context, 1)) {
                return Asked::Denied;
            }
            continue;
        }
        context.wake = noteAnswer;
        context.verdicts = {round.verdicts + context.stageBegin, count};
        switch (gWorker->store(*redis).ask({round.questions + context.stageBegin, count}, context.uniqueId(),
                                           context.waited, context)) {
            case RedisStore::Reception::Pending:
                context.state = Context::State::Waiting;
                context.askedAt = ngx_current_msec;
                return Asked::Waiting;
            case RedisStore::Reception::KnownDenied:
                takeVerdicts(context, Source::Cache);
                return Asked::Denied;
            case RedisStore::Reception::Unavailable:
                if (decideInstead(location, context)) {
                    return Asked::Denied;
                }
                break;
        }
    }
    return Asked::Admitted;
}

/// Takes the answer over into the stage's decisions; true when one of them denies.
bool takeAnswer(const LocationSettings& location, Context& context) {
    context.state = Context::State::Idle;
    return context.error == StoreError::None ? takeVerdicts(context, Source::Redis) : decideInstead(location, context);
}

/// The entries of the round's stages before `end` leave their logs.
void takeBackBefore(Round& round, std::size_t end, std::string_view unique) {
    for (std::size_t begin = 0, next = 0; begin < end; begin = std::max(next, begin + 1)) {
        const Decision& first = round.decisions[begin];
        for (next = begin;
             next < end && round.decisions[next].verdict != nullptr && round.decisions[next].source == first.source &&
             placeOf(round, next) == placeOf(round, begin);
             next++) {
            round.verdicts[next].remaining++;
        }
        const std::span<const Question> questions(round.questions + begin, next - begin);
        if (questions.empty()) {
            continue;
        }
        if (first.source == Source::Local) {
            gWorker->local().takeBack(questions, first.loggedMs);
        } else {
            gWorker->store(*first.settings->log->redis).takeBack(questions, unique, first.loggedMs);
        }
    }
}

/// All or nothing: a request that is denied leaves every log that had admitted it, also those of a location before an
/// internal redirect. `end`: where the stage that denied begins in the latest round, or that round's count.
void takeBack(Context& context, std::size_t end) {
    takeBackBefore(*context.round, end, context.uniqueId());
    for (Round* round = context.round->previous; round != nullptr; round = round->previous) {
        if (!round->denied) {
            takeBackBefore(*round, round->count, context.uniqueId());
            round->denied = true;
        }
    }
    context.round->denied = true;
}

// ---- deciding

/// The limit that denies longest: after its Retry-After all the others have room too.
bool deniesLonger(const Decision& left, const Decision& right) {
    if (left.verdict->retryMs == Verdict::kNever || right.verdict->retryMs == Verdict::kNever) {
        return right.verdict->retryMs != Verdict::kNever;
    }
    return left.verdict->retryMs > right.verdict->retryMs;
}

bool remainsLess(const Decision& left, const Decision& right) {
    if (left.verdict == nullptr || right.verdict == nullptr) {
        return left.verdict == nullptr && right.verdict != nullptr;
    }
    return left.verdict->remaining < right.verdict->remaining;
}

const char* logPrefixOf(bool dryRun) {
    return dryRun ? ", dry run" : "";
}

struct Outcome {
    const Decision* decider;
    ngx_uint_t status;        // 0: admitted
    std::int64_t retryAfter;  // seconds; 0: not to be promised
};

/// What the round's decisions come to, dry run aside. Where the store could not tell, on_error decides; a limit of 0
/// denies even then.
Outcome judge(const LocationSettings& location, const Round& round) {
    const Decision* denier = nullptr;
    const Decision* unknown = nullptr;
    const Decision* least = round.decisions;  // a round has at least one
    for (const Decision& decision : round.all()) {
        if (decision.isDenied() && (denier == nullptr || deniesLonger(decision, *denier))) {
            denier = &decision;
        }
        if (decision.source == Source::Error && (unknown == nullptr || decision.limit == 0)) {
            unknown = &decision;
        }
        if (remainsLess(decision, *least)) {
            least = &decision;
        }
    }
    if (denier != nullptr) {
        const std::int64_t retryMs = denier->verdict->retryMs;
        return {denier, location.status, retryMs == Verdict::kNever ? 0 : retryAfterSeconds(retryMs)};
    }
    if (unknown != nullptr && unknown->limit == 0) {
        return {unknown, location.status, 0};
    }
    if (unknown != nullptr && location.onError != static_cast<ngx_uint_t>(OnError::Allow)) {
        return {unknown, NGX_HTTP_SERVICE_UNAVAILABLE, 1};
    }
    return {least, 0, 0};
}

void logDenial(ngx_http_request_t* request, const LocationSettings& location, const Outcome& outcome) {
    const Decision& decision = *outcome.decider;
    const LogSettings& log = *decision.settings->log;
    if (decision.source == Source::Error) {
        ngx_log_error(location.logLevel, request->connection->log, 0,
                      "limiting requests%s, by limit \"%V\": its store cannot tell", logPrefixOf(location.dryRun),
                      &log.name);
    } else if (decision.verdict->retryMs == Verdict::kNever) {
        ngx_log_error(location.logLevel, request->connection->log, 0,
                      "limiting requests%s, by limit \"%V\": %L in %Lms", logPrefixOf(location.dryRun), &log.name,
                      decision.limit, log.windowMs);
    } else {
        ngx_log_error(location.logLevel, request->connection->log, 0,
                      "limiting requests%s, by limit \"%V\": %L in %Lms, next in %Lms", logPrefixOf(location.dryRun),
                      &log.name, decision.limit, log.windowMs, decision.verdict->retryMs);
    }
}

ngx_int_t conclude(ngx_http_request_t* request, const LocationSettings& location, Context& context) {
    const Outcome outcome = judge(location, *context.round);
    const bool denies = outcome.status != 0;
    if (denies || context.decider == nullptr || remainsLess(*outcome.decider, *context.decider)) {
        context.decider = outcome.decider;
    }
    if (!denies) {
        context.status = context.status == Status::None ? Status::Passed : context.status;
        return NGX_DECLINED;
    }
    const bool deniedByLog = outcome.decider->verdict != nullptr;
    takeBack(context, deniedByLog ? context.stageBegin : context.round->count);
    logDenial(request, location, outcome);
    if (location.dryRun) {
        context.status = Status::RejectedDryRun;
        return NGX_DECLINED;
    }
    context.status = Status::Rejected;
    context.denied = true;
    context.retryAfter = outcome.retryAfter;
    ngx_http_finalize_request(request, static_cast<ngx_int_t>(outcome.status));
    return NGX_DONE;
}

ngx_int_t handle(ngx_http_request_t* request) {
    const LocationSettings& location = settingsOf(request);
    if (location.limits->nelts == 0 || request->post_action) {
        return NGX_DECLINED;
    }
    Context* context = Context::of(request);
    if (context != nullptr && context->state == Context::State::Waiting) {
        return NGX_AGAIN;  // another event of the connection
    }
    if (context != nullptr && context->denied) {
        return NGX_DECLINED;  // the error page of a denial is free
    }
    bool denied = false;
    if (context != nullptr && context->state == Context::State::Answered) {
        denied = takeAnswer(location, *context);
    } else if (const ngx_int_t begun = beginRound(request, location, context); begun != NGX_OK) {
        return begun;
    }
    if (!denied && askFurther(location, *context) == Asked::Waiting) {
        return NGX_AGAIN;
    }
    return conclude(request, location, *context);
}

}  // namespace

ngx_int_t onAccess(ngx_http_request_t* request) noexcept try {
    return handle(request);
} catch (const std::exception& e) {
    ngx_log_error(NGX_LOG_ALERT, request->connection->log, 0, "sliding_log: %s", e.what());
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

}  // namespace sliding_log
