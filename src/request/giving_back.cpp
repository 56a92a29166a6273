#include "request/giving_back.hpp"

#include <algorithm>

#include "request/stage.hpp"
#include "request/under_way.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

/// Takes back entries that one call has logged or may still log. `first`: a copy of the first of their decisions,
/// before it was changed. `permits`: of the checks, if permits admitted them.
void takeBackTogether(std::string_view unique, const Decision& first, std::span<const Check> checks,
                      const Permit* permits) {
    const RedisSettings* redis = first.home;
    if (first.lateReply != nullptr) {
        worker().store(*redis).takeBackLate(*first.lateReply, checks, unique);
    }
    if (!first.logged) {
        return;
    }
    const std::uint64_t takenMs = first.loggedMs - static_cast<std::uint64_t>(first.delayMs());
    if (first.source == Source::Prefetch) {
        for (std::size_t i = 0; i < checks.size(); i++) {
            worker().store(*redis).takeBackPermit(checks[i], permits[i]);
        }
    } else if (first.source == Source::Local) {
        worker().local().takeBack(checks, unique, first.loggedMs, takenMs);
    } else {
        worker().store(*redis).takeBack(checks, unique, first.loggedMs, takenMs);
    }
}

}  // namespace

void takeBackDenied(Context& context, std::span<const Decision> together) {
    const bool isDryRun = context.round->isDryRun;
    const auto isOneOfThem = [&](const Decision& decision) {
        return &decision >= together.data() && &decision < together.data() + together.size();
    };
    takeBack(context, [&](const Round& round, const Decision& decision) {
        const bool isConcerned = isDryRun ? isOneOfThem(decision) : !context.upstreamWorkedSince(round);
        return isConcerned && !decision.settings->countsAll;
    });
}

void takeBackMarked(Context& context) {
    for (Round* round = context.round; round != nullptr; round = round->previous) {
        endMarkedLeases(*round);
        for (const Stage& stage : round->allStages()) {
            for (std::size_t begin = stage.begin, end = 0; begin < stage.end; begin = std::max(end, begin + 1)) {
                const Decision first = round->decisions[begin];
                end = begin;
                while (end < stage.end && round->decisions[end].isLeaving &&
                       round->decisions[end].logged == first.logged) {
                    Decision& each = round->decisions[end];
                    round->verdicts[end].remaining += each.logged ? round->checks[end].cost : 0;
                    each.isLeaving = each.logged = false;
                    each.lateReply = nullptr;
                    end++;
                }
                if (end > begin) {
                    takeBackTogether(round->unique.view(), first, {round->checks + begin, end - begin},
                                     round->permits == nullptr ? nullptr : round->permits + begin);
                }
            }
        }
    }
}

}  // namespace sliding_log
