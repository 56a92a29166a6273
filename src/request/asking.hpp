// Asks the stores for the verdicts on a round's checks, and takes back entries that must not stay.
//
// Stages are asked one after another: the next one when the previous one has admitted the request. If that one takes
// too long, all others are asked at once, each within its own `timeout`, so that each limit is decided by its own
// store; the request continues when all have replied. So no request waits longer than the longest `timeout` of its
// stores.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// To be called before the first of several open stages is asked; without it stages are asked in their order. A known
/// denial denies the request at once, so that nothing is logged elsewhere and taken back. For the same reason, a stage
/// whose known denial is due is asked first. A stage whose store may not reply is asked last, so that the others do not
/// wait for it.
void lookAhead(Context& context);

/// Asks stage after stage. NGX_OK if all have replied. NGX_AGAIN if one has to be waited for: the phases run again when
/// its reply has arrived, or is late, or when it is the request's turn to ask again for a place. NGX_ERROR: the request
/// cannot be suspended. If a stage is still out then, all open stages are asked. Once a limit has denied the
/// request, or cannot be decided and sliding_log_on_error is not `allow`, only stages with count=all are asked.
ngx_int_t askAll(const LocationSettings& location, Context& context);

/// State::Turn: the stage that was waited for is to be asked again; or its time is up, and it denies.
void askAgain(Context& context);

/// The request ends while stores are asked, or before their replies were used. Its entries are taken back if a limit
/// has denied it, if it has a reservation, or from limits with a refund of 499.
void cancelStages(Context& context);

/// Sets the decisions from the replies that have arrived. If a stage failed, possibly because of one of its limits, its
/// limits are to be asked again one by one.
void collectVerdicts(const LocationSettings& location, Context& context);

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
