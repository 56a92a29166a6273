// This process: its clocks, its part among the workers, its worker. No other file names these globals.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "ngx.hpp"

namespace sliding_log {

class Worker;  // this file is below it

/// Of a monotonic clock, the same for all processes of the machine. It stands still during a turn of the event loop.
inline ngx_msec_t nowMs() {
    return ngx_current_msec;
}

/// For latencies below the milliseconds of nginx; takes about 20 ns, without a system call.
inline std::uint64_t nowNs() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// UTC as nginx's cached time has it, in ms since 1970.
inline std::int64_t wallClockMs() {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::int64_t>(now->sec) * 1000 + static_cast<std::int64_t>(now->msec);
}

/// No secret; of 31 bits.
inline std::uint64_t randomNumber() {
    return static_cast<std::uint64_t>(ngx_random());
}

inline ngx_pid_t processId() {
    return ngx_pid;
}

/// A process of nginx that processes no requests, such as the cache manager.
inline bool isHelper() {
    return ngx_process == NGX_PROCESS_HELPER;
}

/// Among the workers of nginx, from 0.
inline ngx_uint_t workerNumber() {
    return ngx_worker;
}

/// The worker has to end as soon as nothing is left to do.
inline bool mustQuit() {
    return ngx_exiting != 0;
}

/// The configuration that this process runs with.
inline const ngx_cycle_t& processCycle() {
    return const_cast<const ngx_cycle_t&>(*ngx_cycle);
}

inline ngx_log_t* processLog() {
    return processCycle().log;
}

inline std::size_t pageBytes() {
    return ngx_pagesize;
}

/// Its handler runs at the end of the turn of the event loop.
inline void postEvent(ngx_event_t* event) {
    ngx_post_event(event, &ngx_posted_events);
}

inline constinit Worker* gWorker = nullptr;

/// False if there is no limit, and in a helper.
inline bool hasWorker() {
    return gWorker != nullptr;
}

inline Worker& worker() {
    return *gWorker;
}

/// Returns the one before, or nullptr; the caller owns both.
inline Worker* replaceWorker(Worker* worker) {
    return std::exchange(gWorker, worker);
}

}  // namespace sliding_log
