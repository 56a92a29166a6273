// Other processes of this node.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cerrno>

namespace sliding_log {

/// False if there is a process of this id, whichever it is.
inline bool isDead(pid_t process) {
    return kill(process, 0) == -1 && errno == ESRCH;
}

}  // namespace sliding_log
