// One EVALSHA on its way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "redis/connection.hpp"
#include "redis/scripts.hpp"
#include "store/group.hpp"
#include "store/list.hpp"

namespace sliding_log {

class RedisStore;
struct Queued;

/// A call knows groups, never a request. It lives in its store and is used again when its reply has come.
struct Call final : ReplyTarget, ListHook<Queued> {
    explicit Call(RedisStore& owner) : store(owner) {}

    void replied(const redisReply* reply) override;

    RedisStore& store;
    Script script = Script::SlidingLog;
    std::string command;         // as sent, kept for a repetition
    std::vector<Group*> groups;  // in the order of the reply; none for an undo
    std::uint64_t sequence = 0;  // of its latest sending on the connection
    unsigned repetitions = 0;
};

}  // namespace sliding_log
