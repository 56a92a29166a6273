// Puts a round's questions to their stores, place after place, and takes back what must not stay.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Asks place after place until all have answered or one has to be waited for: then false, and the phases run again
/// when its answer is here. Once a limit has denied, or cannot be told of and on_error does not allow, only places
/// with a log that counts denied requests, too, are still asked.
bool askAll(const LocationSettings& location, Context& context);

/// The request goes while a store is asked, or before its answer was read: what that has logged is given back where a
/// refund of 499 or a reserved slot wants it.
void abandon(Context& context);

/// Takes the answer that was waited for over into the decisions.
void takeAnswer(const LocationSettings& location, Context& context);

/// The entries leave whose decisions are marked with isLeaving.
void takeBackMarked(Context& context);

/// The request's entries leave the logs of those decisions for which `leaves(round, decision)` is true; each at most
/// once.
template <typename Leaves>
void takeBack(Context& context, Leaves leaves) {
    bool any = false;
    for (Round* round = context.round; round != nullptr; round = round->previous) {
        for (Decision& decision : round->all()) {
            decision.isLeaving = (decision.logged || decision.late != nullptr) && leaves(*round, decision);
            any = any || decision.isLeaving;
        }
    }
    if (any) {
        takeBackMarked(context);
    }
}

}  // namespace sliding_log
