#include "request/counting.hpp"

#include "worker.hpp"

namespace sliding_log {

namespace {

/// Where the store could not tell, on_error is what the limit says.
bool isRejected(const LocationSettings& location, const Decision& decision) {
    if (decision.source == Source::Error) {
        return decision.limit == 0 || location.onError != static_cast<ngx_uint_t>(OnError::Allow);
    }
    return decision.isDenied();
}

Result resultOf(const LocationSettings& location, const Decision& decision) {
    const bool isDryRun = location.dryRun != 0;
    if (isRejected(location, decision)) {
        return isDryRun ? Result::RejectedDryRun : Result::Rejected;
    }
    if (decision.delayMs() > 0) {
        return isDryRun ? Result::DelayedDryRun : Result::Delayed;
    }
    return Result::Passed;
}

/// Another limit may have denied before it was its turn.
bool wasAsked(const Decision& decision) {
    return decision.verdict != nullptr || decision.source == Source::Error;
}

/// At 80 % of the limit or more, this request among them.
bool isNear(const Decision& decision, const Question& question) {
    const std::int64_t most = question.algorithm == Algorithm::Bucket ? question.burst : decision.limit;
    return decision.verdict != nullptr && (most - decision.verdict->remaining) * 5 >= most * 4;
}

}  // namespace

void countDecisions(const LocationSettings& location, const Round& round, bool admitted) {
    for (std::size_t i = 0; i < round.count; i++) {
        const Decision& decision = round.decisions[i];
        if (!wasAsked(decision)) {
            continue;
        }
        LimitCounters& counters = gWorker->counters(*decision.settings->log);
        counters.of(resultOf(location, decision), decision.source).add();
        if (admitted && isNear(decision, round.questions[i])) {
            counters.nearLimit.add();
        }
    }
}

}  // namespace sliding_log
