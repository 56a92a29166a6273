// The record beside a log that changes its limit (option override). The head of lua/override.lua is the contract.
#pragma once

#include <string_view>
#include <vector>

#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

/// What the text of a record says, or an error that was read in its place.
Override saidBy(std::string_view text, double now);

/// Reads the record with the rights of the user who calls, and lets the log obey it. `told`: its text, if the caller
/// has read it. Throws an Error if the record is on another node. Whatever else is found there, the call does not fail.
void obeyRecord(Redis& redis, Log& log, const std::string_view* told, double now);

/// Remaining, reset and retry of a log whose record allows or denies: the log is neither read nor changed.
std::vector<double> numbersUnderRecord(const Log& log, double now);

}  // namespace sliding_log::native
