#include "servers/probe.hpp"

#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "redis/scripts.hpp"
#include "redis/store_error.hpp"
#include "this_process.hpp"

namespace sliding_log {

void Probe::send(Connection& connection) {
    wasSent_ = true;
    sentAt_ = nowMs();
    connection.send(command({"EVALSHA", scriptSha(Algorithm::Log), "0", "0"}), *this);
}

void Probe::replied(const redisReply* reply) {
    if (reply == nullptr) {
        return;  // the owner learns of the end of its connection
    }
    const bool lacksScript = reply->type == REDIS_REPLY_ERROR && checkCall(*reply) == StoreError::NoScript;
    if (lacksScript || (reply->type == REDIS_REPLY_ARRAY && reply->elements == 0)) {
        owner_.probeAnswered(nowMs() - sentAt_);
    } else {
        owner_.probeRefused(reply->type == REDIS_REPLY_ERROR ? replyText(*reply) : "unexpected reply");
    }
}

}  // namespace sliding_log
