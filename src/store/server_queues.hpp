// What the kinds of calls keep for each server.
#pragma once

#include <cstddef>

#include "ngx.hpp"
#include "redis/timer.hpp"
#include "servers/server.hpp"
#include "store/batch.hpp"
#include "store/pace.hpp"
#include "store/take_back.hpp"

namespace sliding_log {

struct ServerQueues final : Server::Attachment {
    List<Batch, Opened> batches;  // to be sent in its next decisions

    // Sent as earlier ones are answered; releases and others take turns.
    List<TakeBack, Kept> releases;
    List<TakeBack, Kept> otherTakeBacks;
    bool wasRelease = false;  // the latest call of them
    Pace pace;

    std::size_t renewalsUnderWay = 0;
    ngx_msec_t renewedAt = 0;  // when the latest of these was sent

    List<TakeBack, Kept>& listOf(const TakeBack& takeBack) { return takeBack.isRelease ? releases : otherTakeBacks; }
    bool hasTakeBacks() const { return !releases.isEmpty() || !otherTakeBacks.isEmpty(); }

    /// Of the two, if one is not empty.
    List<TakeBack, Kept>& listOfOldest() {
        const bool isRelease = otherTakeBacks.isEmpty() ||
                               (!releases.isEmpty() && isBefore(releases.front().ended, otherTakeBacks.front().ended));
        return isRelease ? releases : otherTakeBacks;
    }
};

inline ServerQueues& queuesOf(Server& server) {
    return static_cast<ServerQueues&>(server.attachment());
}

}  // namespace sliding_log
