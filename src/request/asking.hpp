// Asks the stores for the verdicts on a round's checks.
//
// Stages are asked one after another: the next one when the previous one has admitted the request. If that one takes
// too long, all others are asked at once, each within its own `timeout`, so that each limit is decided by its own
// store; the request continues when all have replied. So no request waits longer than the longest `timeout` of its
// stores.
//
// What becomes of a stage, and the function that does it; those of queue.cpp and deciding.cpp are in brackets:
//
//   state    event                                                    next state
//   -------  -------------------------------------------------------  -----------------------------------------------
//   Open     before the first one is asked: a denial is known         Done             lookAt(), [decide()]
//            its turn: requests of this node wait for the same place  Queued           ask()
//            its turn: its store is the local one                     Done or Queued   ask(), [decideLocally()]
//            its turn: a call is to be made                           Out              ask()
//            its turn: a known denial or a permit decides             Done or Queued   ask(), [decide()]
//            its turn: its Redis cannot be asked                      Done or Queued   ask(), [decideInstead()]
//            its turn: its limits are to be asked apart               Open, each       askApart()
//   Out      its reply is here, or is late                            Replied          noteReply()
//   Replied  the phases run: Redis has decided                        Done or Queued   useReply(), [decide()]
//            the phases run: one of its limits may have failed        Open, each       askApart()
//            the phases run: Redis has not decided                    Done or Queued   useReply(), [decideInstead()]
//   Queued   others have left, or it may ask again                    Open             askAll(), [takeTurn()]
//            its time is up, or another limit has denied              Done             askAgain(), stopWaiting()
//   Out      the request ends                                         Done             cancelOut()
//
// The states of the request (Context::State; a diagram is in docs/architecture.md) follow: it is Waiting while a stage
// is Out, Replied when all have replied or one is late, and Queued or its Turn if a stage is Queued and no other one is
// to be asked.
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

}  // namespace sliding_log
