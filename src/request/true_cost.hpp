// The cost that a request really had, as settle= gives it.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// An internal redirect begins: its location may replace the upstream, which may have told a cost.
void noteReplacedUpstream(Context& context);

/// The value of settle= for the answer that the client got, and in addition the values for answers of upstreams that
/// an internal redirect has replaced since the round began, as far as they depend on these. Check::kNotSettled without
/// a valid number. A number that is too large is as much as a log takes, so that nothing is cheaper because it is huge.
/// The request's variables are not changed.
std::int64_t trueCost(const Context& context, const Round& round, const LimitSettings& settings);

}  // namespace sliding_log
