// One EVALSHA on its way, and who waits for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "limit/verdict.hpp"
#include "ngx.hpp"
#include "redis/connection.hpp"
#include "redis/scripts.hpp"
#include "redis/store_error.hpp"
#include "store/list.hpp"

namespace sliding_log {

struct Call;
class RedisStore;

/// A request's side of a question. It lives in the request and knows its call only while the answer is out.
struct Waiter {
    Call* call = nullptr;
    std::span<Verdict> verdicts;             // written before wake() when the answer's error is None
    void (*wake)(Waiter& waiter, StoreError error) = nullptr;  // called at most once per ask(); must not run the request

    /// The request goes: the answer will find nobody. The call itself goes on, its place on the wire is taken.
    void forget();
};

struct WithDeadline;
struct Queued;

/// A call never knows a request, only its waiter. It lives in its store and is used again when its reply has come.
struct Call final : ReplyTarget, ListHook<WithDeadline>, ListHook<Queued> {
    explicit Call(RedisStore& owner) : store(owner) {}

    void replied(const redisReply* reply) override;

    RedisStore& store;
    Waiter* waiter = nullptr;  // nullptr: left, or nobody ever waited
    std::string command;       // as sent, kept for a repetition
    Script script = Script::SlidingLog;
    ngx_msec_t deadline = 0;
    std::uint64_t sequence = 0;  // of its latest sending on the connection
    unsigned repetitions = 0;
    bool settled = false;  // its waiter was answered (by a deadline); only the reply's place is left
};

inline void Waiter::forget() {
    if (call != nullptr) {
        call->waiter = nullptr;
        call = nullptr;
    }
}

}  // namespace sliding_log
