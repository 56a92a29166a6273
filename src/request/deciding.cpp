#include "request/deciding.hpp"

#include <algorithm>

#include "request/overriding.hpp"
#include "request/queue.hpp"
#include "request/stage.hpp"
#include "request/under_way.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

/// Nobody knows when a request that is under way ends: clients shall ask again in a second.
void tellNoTime(const Decision& decision, Verdict& verdict) {
    constexpr std::int64_t kMs = 1000;
    verdict.resetMs = kMs;
    if (verdict.retryMs > 0 && decision.source != Source::Override) {
        verdict.retryMs = kMs;
    }
}

/// Sets the decision of a limit of the stage.
void setDecision(const Stage& stage, std::size_t limit, Source source) {
    Round& round = *stage.context->round;
    Decision& decision = round.decisions[limit];
    Verdict& verdict = round.verdicts[limit];
    decision.source = source;
    decision.verdict = &verdict;
    decision.loggedMs = stage.loggedMs;
    if (source == Source::Local || source == Source::Prefetch) {
        verdict.override = {};  // they know none; it may be that of a known denial that is over
    } else if (round.checks[limit].hasOverride) {
        applyOverride(stage.context->request, round, limit);
    }
    if (traitsOf(round.checks[limit].algorithm).countsUnderWay) {
        tellNoTime(decision, verdict);
    }
}

/// A reservation must not be used early: both clocks truncate milliseconds, and the time of the event loop may be late.
void noteReservation(Context& context, const Verdict& verdict) {
    if (verdict.delayMs == 0) {
        return;
    }
    ngx_time_update();
    const ngx_msec_t dueAt = nowMs() + static_cast<ngx_msec_t>(verdict.delayMs) + 1;
    const bool isLater = context.dueAt == 0 || isBefore(context.dueAt, dueAt);
    context.dueAt = isLater ? dueAt : context.dueAt;
}

void admit(Stage& stage) {
    stage.state = Stage::State::Done;
    leaveQueue(stage);
    Context& context = *stage.context;
    for (std::size_t i = stage.begin; i < stage.end; i++) {
        Decision& decision = context.round->decisions[i];
        decision.logged = decision.source != Source::Override;
        if (!context.round->isDryRun) {
            noteReservation(context, context.round->verdicts[i]);
        }
    }
}

void deny(Stage& stage) {
    stage.state = Stage::State::Done;
    leaveQueue(stage);
    noteDenial(*stage.context);
}

/// No store could decide.
void leaveUnknown(Stage& stage) {
    stage.state = Stage::State::Done;
    for (Decision& decision : decisionsOf(stage)) {
        decision.source = Source::Error;
        decision.verdict = nullptr;  // it may have been denied before it waited
    }
    leaveQueue(stage);
}

/// Reduces the limits and the bursts of the stage to the share of this node, rounded up.
void takeShare(const Stage& stage, std::int64_t nodes) {
    const auto shareOf = [nodes](std::int64_t whole) { return (whole + nodes - 1) / nodes; };
    const std::span<Check> checks = checksOf(stage);
    const std::span<Decision> decisions = decisionsOf(stage);
    for (std::size_t i = 0; i < checks.size(); i++) {
        checks[i].limit = decisions[i].limit = shareOf(checks[i].limit);
        checks[i].burst = shareOf(checks[i].burst);
    }
}

}  // namespace

void decide(Stage& stage, Source source) {
    bool isDenied = false;
    for (std::size_t i = stage.begin; i < stage.end; i++) {
        setDecision(stage, i, source);
        isDenied = isDenied || stage.context->round->decisions[i].isDenied();
    }
    if (!isDenied) {
        admit(stage);
    } else if (mayWait(stage)) {
        stage.state = Stage::State::Queued;
    } else {
        deny(stage);
    }
}

void decideByName(Stage& stage) {
    setVerdictOfName(decisionsOf(stage).front(), checksOf(stage).front(), verdictsOf(stage).front());
    decide(stage, Source::Override);
}

void decideLocally(Stage& stage) {
    useLeasesOfNow(*stage.context->round, stage);
    if (worker().local().ask(checksOf(stage), verdictsOf(stage), stage.context->round->unique.view(), stage.loggedMs)) {
        decide(stage, Source::Local);
    } else {
        leaveUnknown(stage);
    }
}

void decideInstead(const LocationSettings& location, Stage& stage) {
    if (location.onError == static_cast<ngx_uint_t>(OnError::Local)) {
        takeShare(stage, static_cast<std::int64_t>(location.nodes));
        worker().store(*redisOf(stage)).countLocally(checksOf(stage).front());
        decideLocally(stage);
        return;
    }
    leaveUnknown(stage);
    if (location.onError == static_cast<ngx_uint_t>(OnError::Deny)) {
        noteDenial(*stage.context);
    }
}

}  // namespace sliding_log
