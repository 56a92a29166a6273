// A clock that never steps and runs while the host sleeps.
#pragma once

#include <cstdint>
#include <ctime>

namespace sliding_log {

/// Milliseconds since the host was started, rounded down; read from the system at each call, without a system call.
inline std::uint64_t bootTimeMs() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace sliding_log
