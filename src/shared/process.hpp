// Other processes of this node, which share its zone.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cerrno>

namespace sliding_log {

/// False if there is a process of this id, whichever it is, also if that is stopped or nobody has waited for it yet.
inline bool isDead(pid_t process) {
    return kill(process, 0) == -1 && errno == ESRCH;
}

}  // namespace sliding_log
