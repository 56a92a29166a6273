// What the kinds of calls keep for each server.
#pragma once

#include <cstddef>

#include "ngx.hpp"
#include "servers/server.hpp"
#include "store/batch.hpp"
#include "store/pace.hpp"
#include "store/take_back.hpp"

namespace sliding_log {

struct ServerQueues final : Server::Attachment {
    List<Batch, Opened> batches;  // to be sent in its next decisions

    List<TakeBack, Kept> kept;  // sent as earlier ones are answered
    Pace pace;                  // of that

    std::size_t renewalsUnderWay = 0;
    ngx_msec_t renewedAt = 0;  // when the latest of these was sent
};

inline ServerQueues& queuesOf(Server& server) {
    return static_cast<ServerQueues&>(server.attachment());
}

}  // namespace sliding_log
