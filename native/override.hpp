// The record beside a log that changes its limit (option override). The head of lua/override.lua is the contract.
#pragma once

#include <string_view>
#include <vector>

#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

/// What the text of a record says, or the error in its place.
Override saidBy(std::string_view text, double now);

/// Reads the record, with the rights of the user who calls, and lets the log obey it. `told`: its text, if the caller
/// has read it. Throws an Error if it is on another node; nothing else in its place makes a call fail.
void obeyRecord(Redis& redis, Log& log, const std::string_view* told, double now);

/// Of a log that is neither read nor changed: what remains, reset and retry.
std::vector<double> numbersUnderRecord(const Log& log, double now);

}  // namespace sliding_log::native
