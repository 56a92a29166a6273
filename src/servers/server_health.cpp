#include "servers/server_health.hpp"

#include <atomic>
#include <optional>

#include "redis/info.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "shared/one_worker.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// The minimum time between warnings of a policy that changes repeatedly.
constexpr ngx_msec_t kPolicyPauseMs = 60'000;

/// How often one worker of the node asks a server for its health, and after how long again if it refused.
constexpr std::uint64_t kHealthEveryMs = 10'000;
constexpr std::uint64_t kHealthRefusedMs = 600'000;

}  // namespace

void ServerHealth::report(Reachability what) {
    if (!mustQuit()) {
        counters_.report(workerNumber(), what);
    }
}

void ServerHealth::policyTold(std::string_view server, std::string_view policy) {
    if (!isEvictionUnsafe(policy)) {
        policyTold_.clear();
    } else if (policy != policyTold_ && (policyToldAt_ == 0 || nowMs() - policyToldAt_ >= kPolicyPauseMs)) {
        policyTold_ = policy;
        policyToldAt_ = nowMs();
        log_.evictionUnsafe(server, policy);
    }
}

void ServerHealth::tick(Connection& connection) {
    static const std::string infoCommand = command({"INFO", "memory", "stats"});
    report(Reachability::Up);
    if (!mustQuit() && claimDue(counters_.health.dueMs, nowMs(), kHealthEveryMs)) {
        connection.send(infoCommand, *this);
    }
}

/// INFO that is not permitted is not an error: the health of the server is unknown.
void ServerHealth::replied(const redisReply* reply) {
    if (reply == nullptr) {
        return;
    }
    Health& health = counters_.health;
    if (reply->type == REDIS_REPLY_ERROR && classifyError(replyText(*reply)) != StoreError::TryAgain) {
        health.dueMs.store(nowMs() + kHealthRefusedMs, std::memory_order_relaxed);
    } else if (const std::optional<MemoryInfo> info = readMemoryInfo(replyText(*reply))) {
        health.memoryUsed.store(info->used, std::memory_order_relaxed);
        health.memoryMax.store(info->max, std::memory_order_relaxed);
        health.evictedKeys.store(info->evictedKeys, std::memory_order_relaxed);
        health.evictionUnsafe.store(info->evictionUnsafe, std::memory_order_relaxed);
        health.toldMs.store(nowMs(), std::memory_order_relaxed);
    }
    owner_.healthTold();
}

}  // namespace sliding_log
