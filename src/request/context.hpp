// What this module knows of one request.
//
// Ownership: a Context lives in r->pool, from the first limit that applies until the pool goes, after the log phase,
// so that variables serve the access log. It is found through the module context and, after an internal redirect
// has cleared that, through its pool cleanup. While it waits it is in a group of its store; the cleanup (client gone,
// request terminated) takes it out, and the group's answer then finds nobody. It points at settings only.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "conf/settings.hpp"
#include "limit/verdict.hpp"
#include "ngx.hpp"
#include "redis/store_error.hpp"
#include "store/group.hpp"

namespace sliding_log {

enum class Source { Redis, Cache, Local, Error };
enum class Status { None, Passed, Rejected, RejectedDryRun };

/// One limit as this request met it.
struct Decision {
    static constexpr std::int64_t kUnknownLimit = -1;  // its variable is no whole number

    const LimitSettings* settings;
    std::int64_t limit;
    Source source;
    const Verdict* verdict;  // nullptr: the store could not tell
    std::uint64_t loggedMs;  // by the store's clock, where it tells: for taking it back

    bool isDenied() const { return verdict != nullptr && !verdict->hasRoom(); }
};

/// The limits that one location asks of one request, in the order they are asked: those of one place together.
struct Round {
    Round* previous;  // of the location before an internal redirect
    std::size_t count;
    Decision* decisions;
    Question* questions;
    Verdict* verdicts;
    bool denied;  // its logs hold nothing of the request

    std::span<Decision> all() const { return {decisions, count}; }
};

struct Context final : Waiter {
    enum class State {
        Idle,     // nothing is out
        Waiting,  // a store was asked; the request is suspended
        Answered  // the answer is here; the phases run again soon
    };

    /// The request's Context, also after an internal redirect; nullptr when no limit applied so far.
    static Context* of(ngx_http_request_t* request);

    /// A new one, tied to the request's life; nullptr when memory is short.
    static Context* create(ngx_http_request_t* request);

    /// True when a limit of this name was asked, in this location or in one before an internal redirect.
    bool hasAsked(const LogSettings& log) const;

    ngx_http_request_t* request;
    State state;
    StoreError error;  // of the last answer

    Round* round;            // the latest; nullptr: none yet
    std::size_t stageBegin;  // of the round's limits: [stageBegin, stageEnd) were asked last, in one call
    std::size_t stageEnd;
    std::array<char, 24> unique;  // the request's own name in every log
    std::size_t uniqueLength;

    Status status;
    const Decision* decider;  // what the variables tell of
    bool denied;              // answered with an error: nothing more is asked, and Retry-After is due
    ngx_uint_t fields;        // a Fields, of the location that asked last: an error page may lie in another
    std::int64_t retryAfter;  // seconds; 0: not to be promised
    ngx_msec_t askedAt;
    ngx_msec_t waited;  // ms, for all stores together

    std::string_view uniqueId() const { return {unique.data(), uniqueLength}; }
};

}  // namespace sliding_log
