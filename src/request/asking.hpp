// Puts a round's checks to their stores, and takes back what must not stay.
//
// Stage after stage is asked: the next one when the one before has admitted the request. Where that one does not answer
// for long all others are asked at once, each inside its own `timeout`, so that each limit is decided by its own store;
// the request then goes on when all have answered. So nobody waits longer than the longest `timeout` of the stores.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Of stages that are open, before one of them is asked: what the node knows to be denied anywhere is denied without
/// being logged and taken back elsewhere. For the same reason one whose denial is due comes first; and one whose store
/// is not known to answer comes last, so that the others do not wait for it. Without it they are asked as they are.
void lookAhead(Context& context);

/// Asks stage after stage until all have answered or one has to be waited for: then false, and the phases run again
/// when its answer is here, or late. When they run with a stage still out all the open ones are asked. Once a limit has
/// denied, or cannot be told of and on_error does not allow, only stages with a log that counts denied requests, too,
/// are still asked.
bool askAll(const LocationSettings& location, Context& context);

/// The request goes while stores are asked, or before their answers were read: what these have logged is given back
/// where a refund of 499 or a reservation requires it, or a limit has denied.
void cancelStages(Context& context);

/// Takes the answers that are here over into the decisions. Limits of a stage that failed for one of them, perhaps, are
/// to be asked again, each by itself.
void collectVerdicts(const LocationSettings& location, Context& context);

/// All or nothing: a request that these limits of the latest round deny together leaves every log that had admitted it,
/// also those of a location before an internal redirect, but for those that count denied requests, too, and those of
/// locations after which an upstream has worked for it. A denial in a dry run concerns nothing but these limits.
void takeBackDenied(Context& context, std::span<const Decision> together);

/// The entries leave whose decisions are marked with isLeaving.
void takeBackMarked(Context& context);

/// The request's entries leave the logs of those decisions for which `leaves(round, decision)` is true; each at most
/// once.
template <typename Leaves>
void takeBack(Context& context, Leaves leaves) {
    bool any = false;
    for (Round* round = context.round; round != nullptr; round = round->previous) {
        for (Decision& decision : round->all()) {
            decision.isLeaving = (decision.logged || decision.lateReply != nullptr) && leaves(*round, decision);
            any = any || decision.isLeaving;
        }
    }
    if (any) {
        takeBackMarked(context);
    }
}

}  // namespace sliding_log
