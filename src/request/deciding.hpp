// How a stage is decided: by the verdicts of a store, or without one, as sliding_log_on_error says. The stage then is
// State::Done, or State::Queued if it denies the request and that may wait for a place.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// By its verdicts, which this source has given.
void decide(Stage& stage, Source source);

/// By the record of the NAME of its only limit.
void decideByName(Stage& stage);

/// By the local store.
void decideLocally(Stage& stage);

/// Without its Redis.
void decideInstead(const LocationSettings& location, Stage& stage);

/// A limit of the round has denied the request. So all do, unless each limit is decided alone.
inline void noteDenial(Context& context) {
    context.refused = context.refused || !context.round->isEachAlone;
}

}  // namespace sliding_log
