#include "servers/reauthentication.hpp"

#include <utility>

#include "redis/handshake.hpp"
#include "redis/reply.hpp"

namespace sliding_log {

void Reauthentication::again(const Credentials& credentials) {
    if (accepted_ != 0 && accepted_ != credentials.version() && sent_ == 0 &&
        connection_.send(credentials.authentication(), *this)) {
        sent_ = credentials.version();
    }
}

void Reauthentication::replied(const redisReply* reply) {
    if (reply == nullptr) {
        return;  // the owner learns of the end of its connection
    }
    const std::uint64_t sent = std::exchange(sent_, 0);
    if (reply->type == REDIS_REPLY_ERROR) {
        owner_.authenticationRefused(authenticationRefusal(replyText(*reply)));
    } else {
        accepted_ = sent;
        owner_.authenticatedAgain();
    }
}

}  // namespace sliding_log
