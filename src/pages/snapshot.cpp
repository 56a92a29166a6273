#include "pages/snapshot.hpp"

#include <algorithm>
#include <utility>

#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

/// The health of a server is not shown when it is older than this.
constexpr ngx_msec_int_t kHealthLastsMs = 60'000;

}  // namespace

Snapshot takeSnapshot(const MainSettings& main) {
    Snapshot snapshot{
        {static_cast<LogSettings* const*>(main.logs.elts), main.logs.nelts}, {}, main.zone, main.zoneSize};
    if (!hasWorker()) {
        return {{}, {}, nullptr, 0};
    }
    const auto* core = reinterpret_cast<const ngx_core_conf_t*>(ngx_get_conf(processCycle().conf_ctx, ngx_core_module));
    const auto workers = static_cast<std::size_t>(std::max<ngx_int_t>(core->worker_processes, 1));
    worker().registry().forEachServer([&](ServerCounters& each) {
        const std::uint64_t toldMs = get(each.health.toldMs);
        const auto age = static_cast<ngx_msec_int_t>(nowMs() - toldMs);
        snapshot.servers.push_back({&each, each.reachabilityBy(workers), toldMs != 0 && age < kHealthLastsMs});
    });
    std::ranges::sort(snapshot.servers, {},
                      [](const Snapshot::ServerState& each) { return std::pair(each.store(), each.name()); });
    return snapshot;
}

}  // namespace sliding_log
