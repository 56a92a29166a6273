// The first Ctrl-C lets the tool remove what it wrote, and end; a second one ends it at once.
#pragma once

namespace sliding_log::tool {

/// From now on SIGINT, SIGTERM and SIGHUP are noted and do not end the process.
void noteInterrupts();

/// Throws Interrupted if a signal was received. Loops call it between two exchanges with Redis.
void endIfInterrupted();

/// Waits; throws Interrupted if a signal is received.
void pauseFor(int milliseconds);

}  // namespace sliding_log::tool
