// Gives back what a request has taken and must not keep.
#pragma once

#include <span>

#include "request/context.hpp"

namespace sliding_log {

/// All or nothing: removes a request that these limits of the latest round deny together from all logs that admitted
/// it, including those of locations before an internal redirect. Not from logs of limits with count=all, nor from those
/// of a round after which an upstream has worked for the request. In a dry run only these limits are concerned.
void takeBackDenied(Context& context, std::span<const Decision> together);

/// Takes back the entries of all decisions with isLeaving.
void takeBackMarked(Context& context);

/// Takes back the entries of all decisions for which `leaves(round, decision)` is true, each at most once.
template <typename Leaves>
void takeBack(Context& context, Leaves leaves) {
    bool any = false;
    for (Round* round = context.round; round != nullptr; round = round->previous) {
        for (Decision& decision : round->all()) {
            const bool isHeld = round->leases != nullptr && round->leases[&decision - round->decisions].isHeld();
            decision.isLeaving =
                (decision.logged || decision.lateReply != nullptr || isHeld) && leaves(*round, decision);
            any = any || decision.isLeaving;
        }
    }
    if (any) {
        takeBackMarked(context);
    }
}

}  // namespace sliding_log
