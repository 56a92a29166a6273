// Ctrl-C asks the tool to end, so that it can remove what it wrote; a second one ends it at once.
#pragma once

namespace sliding_log::tool {

/// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process.
void noteInterrupts();

/// Throws Interrupted when one has come. Loops call it between two exchanges with Redis.
void endIfInterrupted();

/// Waits; throws Interrupted when a signal comes.
void pauseFor(int milliseconds);

}  // namespace sliding_log::tool
