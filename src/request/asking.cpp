#include "request/asking.hpp"

#include <algorithm>
#include <span>

#include "request/round.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

constexpr ngx_uint_t kLeft = NGX_HTTP_CLIENT_CLOSED_REQUEST;

// The limits that are asked in one call.

std::span<Question> questionsOf(const Context& context) {
    return {context.round->questions + context.stageBegin, context.stageEnd - context.stageBegin};
}

std::span<Decision> decisionsOf(const Context& context) {
    return {context.round->decisions + context.stageBegin, context.stageEnd - context.stageBegin};
}

std::span<Verdict> verdictsOf(const Context& context) {
    return {context.round->verdicts + context.stageBegin, context.stageEnd - context.stageBegin};
}

/// Redis may log the request later on, or have done so.
void noteLate(Context& context, Orphan& orphan) {
    void* memory = ngx_palloc(context.request->pool, sizeof(Late));
    if (memory == nullptr) {
        return;
    }
    auto* late = new (memory) Late(orphan);
    late->next = context.lates;
    context.lates = late;
    for (Decision& decision : decisionsOf(context)) {
        decision.late = late;
    }
}

/// The store's answer: noted here, acted on when the phases run again. Called from Redis's callbacks, where no
/// request may run.
void noteAnswer(Waiter& waiter, StoreError error) {
    auto& context = static_cast<Context&>(waiter);
    context.error = error;
    context.state = Context::State::Answered;
    context.waited += ngx_current_msec - context.askedAt;
    if (context.orphan != nullptr) {
        noteLate(context, *context.orphan);
    }
    ngx_post_event(context.request->connection->write, &ngx_posted_events);
}

/// A slot that was reserved is not used before its time: both clocks cut milliseconds off, and this loop's is behind.
void noteSlot(Context& context, const Verdict& verdict) {
    if (verdict.delayMs == 0) {
        return;
    }
    ngx_time_update();
    const ngx_msec_t dueAt = ngx_current_msec + static_cast<ngx_msec_t>(verdict.delayMs) + 1;
    const bool isLater = context.dueAt == 0 || static_cast<ngx_msec_int_t>(dueAt - context.dueAt) > 0;
    context.dueAt = isLater ? dueAt : context.dueAt;
}

/// Takes the stage's verdicts over into its decisions.
void takeVerdicts(Context& context, Source source) {
    const Round& round = *context.round;
    bool denied = false;
    for (std::size_t i = context.stageBegin; i < context.stageEnd; i++) {
        Decision& decision = round.decisions[i];
        decision.source = source;
        decision.verdict = &round.verdicts[i];
        decision.loggedMs = context.loggedMs;
        denied = denied || decision.isDenied();
    }
    context.refused = context.refused || denied;
    for (std::size_t i = context.stageBegin; !denied && i < context.stageEnd; i++) {
        round.decisions[i].logged = true;
        if (!round.isDryRun) {
            noteSlot(context, round.verdicts[i]);
        }
    }
}

/// No store could tell.
void noteUnknown(const Context& context) {
    for (Decision& decision : decisionsOf(context)) {
        decision.source = Source::Error;
    }
}

/// Asks this node's own logs for the stage.
void askLocally(Context& context) {
    if (gWorker->local().ask(questionsOf(context), verdictsOf(context), context.uniqueId(), context.loggedMs)) {
        takeVerdicts(context, Source::Local);
        return;
    }
    noteUnknown(context);
}

/// This node's share of the stage's limits, and of their buckets.
void takeShare(const Context& context, std::int64_t nodes) {
    const auto shareOf = [nodes](std::int64_t whole) { return (whole + nodes - 1) / nodes; };
    const std::span<Question> questions = questionsOf(context);
    const std::span<Decision> decisions = decisionsOf(context);
    for (std::size_t i = 0; i < questions.size(); i++) {
        questions[i].limit = decisions[i].limit = shareOf(questions[i].limit);
        questions[i].burst = shareOf(questions[i].burst);
    }
}

/// What decides where a Redis cannot.
void decideInstead(const LocationSettings& location, Context& context) {
    if (location.onError == static_cast<ngx_uint_t>(OnError::Local)) {
        takeShare(context, static_cast<std::int64_t>(location.nodes));
        askLocally(context);
        return;
    }
    noteUnknown(context);
}

/// True when a limit that no store could tell of denies the request, whatever the others say.
bool isDeniedUnknown(const LocationSettings& location, const Round& round) {
    return location.onError != static_cast<ngx_uint_t>(OnError::Allow) &&
           std::ranges::any_of(round.all(), [](const Decision& each) { return each.source == Source::Error; });
}

/// Sets [stageBegin, stageEnd) to the next limits that one call asks; false when there are none. Inlined by force,
/// since every request comes here twice.
[[gnu::always_inline]] inline bool nextStage(Context& context) {
    const Round& round = *context.round;
    context.stageBegin = context.stageEnd;
    while (context.stageBegin < round.count && round.decisions[context.stageBegin].source == Source::Invalid) {
        context.stageBegin++;
    }
    context.stageEnd = context.stageBegin;
    while (context.stageEnd < round.count && round.decisions[context.stageEnd].source != Source::Invalid &&
           placeOf(round, context.stageEnd) == placeOf(round, context.stageBegin)) {
        context.stageEnd++;
    }
    return context.stageEnd > context.stageBegin;
}

/// Before anything is asked: what the node knows to be denied anywhere is denied without being logged and taken back
/// elsewhere. Where nothing else denies, a place whose denial is due comes first, for the same reason.
void lookAhead(Context& context) {
    const Round& round = *context.round;
    std::size_t dueBegin = 0;
    std::size_t dueEnd = 0;
    while (nextStage(context)) {
        const RedisSettings* redis = round.decisions[context.stageBegin].settings->log->redis;
        const Belief belief =
            redis == nullptr ? Belief::None : gWorker->store(*redis).known(questionsOf(context), verdictsOf(context));
        if (belief == Belief::Holds) {
            takeVerdicts(context, Source::Cache);
        } else if (belief == Belief::Due) {
            dueBegin = context.stageBegin;
            dueEnd = context.stageEnd;
        }
    }
    if (!context.refused) {
        std::rotate(round.decisions, round.decisions + dueBegin, round.decisions + dueEnd);
        std::rotate(round.questions, round.questions + dueBegin, round.questions + dueEnd);
    }
    context.stageBegin = context.stageEnd = 0;
}

}  // namespace

bool askAll(const LocationSettings& location, Context& context) {
    const Round& round = *context.round;
    if (context.stageEnd == 0 && round.count > 1 && placeOf(round, 0) != placeOf(round, round.count - 1)) {
        lookAhead(context);
    }
    while (nextStage(context)) {
        const std::span<const Question> questions = questionsOf(context);
        if (round.decisions[context.stageBegin].verdict != nullptr) {
            continue;
        }
        if ((context.refused || isDeniedUnknown(location, round)) &&
            std::ranges::none_of(questions, &Question::countsAll)) {
            continue;
        }
        const RedisSettings* redis = round.decisions[context.stageBegin].settings->log->redis;
        if (redis == nullptr) {
            askLocally(context);
            continue;
        }
        context.wake = noteAnswer;
        context.verdicts = verdictsOf(context);
        switch (gWorker->store(*redis).ask(questions, context.uniqueId(), context.waited, context)) {
            case RedisStore::Reception::Pending:
                context.state = Context::State::Waiting;
                context.askedAt = ngx_current_msec;
                return false;
            case RedisStore::Reception::KnownDenied:
                takeVerdicts(context, Source::Cache);
                break;
            case RedisStore::Reception::Unavailable:
                decideInstead(location, context);
                break;
        }
    }
    return true;
}

void takeAnswer(const LocationSettings& location, Context& context) {
    context.state = Context::State::Idle;
    if (context.error == StoreError::None) {
        takeVerdicts(context, Source::Redis);
    } else {
        decideInstead(location, context);
    }
}

void abandon(Context& context) {
    const Round& round = *context.round;
    if (context.state == Context::State::Waiting) {
        const auto mayLeave = [](const Question& each) { return each.leavesWithClient || each.delayMs > 0; };
        if (std::ranges::any_of(questionsOf(context), mayLeave)) {
            gWorker->store(*decisionsOf(context).front().settings->log->redis).abandon(context);
        } else {
            context.forget();
        }
    } else if (context.error == StoreError::None) {
        takeVerdicts(context, Source::Redis);
    }
    const bool isHeld =
        std::ranges::any_of(round.all(), [](const Decision& each) { return each.logged && each.delayMs() > 0; });
    takeBack(context, [&](const Round& of, const Decision& decision) {
        return isRefunded(decision, kLeft) || (isHeld && !context.upstreamWorkedSince(of));
    });
}

void takeBackMarked(Context& context) {
    for (Round* round = context.round; round != nullptr; round = round->previous) {
        for (std::size_t begin = 0, end = 0; begin < round->count; begin = std::max(end, begin + 1)) {
            const Decision first = round->decisions[begin];
            for (end = begin;
                 end < round->count && round->decisions[end].isLeaving &&
                 round->decisions[end].source == first.source && round->decisions[end].logged == first.logged &&
                 placeOf(*round, end) == placeOf(*round, begin);
                 end++) {
                Decision& each = round->decisions[end];
                round->verdicts[end].remaining += each.logged ? round->questions[end].cost : 0;
                each.isLeaving = each.logged = false;
                each.late = nullptr;
            }
            const std::span<const Question> questions(round->questions + begin, end - begin);
            if (questions.empty()) {
                continue;
            }
            if (first.late != nullptr) {
                gWorker->store(*first.settings->log->redis).takeBackLate(*first.late, questions, context.uniqueId());
            }
            if (!first.logged) {
                continue;
            }
            const std::uint64_t takenMs = first.loggedMs - static_cast<std::uint64_t>(first.delayMs());
            if (first.source == Source::Local) {
                gWorker->local().takeBack(questions, context.uniqueId(), first.loggedMs, takenMs);
            } else {
                gWorker->store(*first.settings->log->redis)
                    .takeBack(questions, context.uniqueId(), first.loggedMs, takenMs);
            }
        }
    }
}

}  // namespace sliding_log
