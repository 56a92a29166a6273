// The state of one request in this module.
//
// Ownership: a Context is in r->pool, from the first limit that applies until the pool is destroyed, after the log
// phase, so that the access log can use the variables. It is found through the module context or, if an internal
// redirect has cleared that, through its pool cleanup. While it waits, the stages that were asked are in batches of
// their stores; the cleanup (client gone, request terminated) detaches them, and the replies do not reach them any
// more. While it is held, or waits for one stage before it asks the next, its timer runs; the cleanup stops it and
// takes a reservation back. Outside its pool a Context refers to settings and, until the replies arrive, to batches and
// orphans of the stores.
#pragma once

#include <algorithm>
#include <bitset>
#include <optional>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "limit/result.hpp"
#include "limit/source.hpp"
#include "limit/unique_id.hpp"
#include "local/local_store.hpp"
#include "ngx.hpp"
#include "redis/store_error.hpp"
#include "settings/settings.hpp"
#include "store/batch.hpp"
#include "store/lease.hpp"
#include "store/orphan.hpp"
#include "store/queues.hpp"

namespace sliding_log {

/// A limit as one request met it.
struct Decision {
    static constexpr std::int64_t kUnknownLimit = -1;  // a variable of it has no valid value

    const LimitSettings* settings = nullptr;
    const RedisSettings* home = nullptr;  // its store for this request; nullptr: that of this node
    std::int64_t limit = 0;               // that decides
    Source source = {};
    const Verdict* verdict = nullptr;            // nullptr: not asked, or the store could not decide
    std::uint64_t loggedMs = 0;                  // by the clock of the store, for a take-back
    bool logged = false;                         // the request is in the log
    bool isLeaving = false;                      // its entries are to be taken back
    std::size_t nth = 0;                         // position in the configuration, within its round
    std::string_view key{};                      // the name of the log in its store; empty if a value is invalid
    LateReply* lateReply = nullptr;              // set if Redis did not reply in time and may have logged the request
    std::int64_t queuedMs = 0;                   // it has waited so long for a place
    std::int64_t trueCost = Check::kNotSettled;  // by settle=, once known
    std::int64_t configuredLimit = 0;            // by limit=, for this request
    std::optional<Result> result = {};           // as counted in the metrics, once its round is decided

    bool isDenied() const { return source == Source::Invalid || (verdict != nullptr && !verdict->hasRoom()); }
    std::int64_t delayMs() const { return verdict == nullptr ? 0 : verdict->delayMs; }
    bool isDelayed() const { return delayMs() > 0 || queuedMs > 0; }
    /// False: the limit is asked later, or another one denied the request before.
    bool wasAsked() const { return verdict != nullptr || source == Source::Error || source == Source::Invalid; }
};

/// The name of its log, as metrics and the dashboard have it; its key must be known.
std::string_view keyWithoutPrefix(const Decision& decision);

/// What may be shown of the key's value.
std::string_view shownKey(const Decision& decision);

/// The same with the NAME before it; its key must be known.
std::string_view shownName(const Decision& decision);

/// True if a response with this status gives the entries back.
inline bool isRefunded(const Decision& decision, ngx_uint_t status) {
    const LimitSettings::Statuses& statuses = decision.settings->refund;
    return status < statuses.size() && statuses[status];
}

struct Context;

/// Adjacent limits of a round that are asked in one call, and the wait for its reply.
struct Stage final : Waiter {
    enum class State : std::uint8_t {
        Open,     // not asked yet
        Out,      // asked, no reply yet
        Replied,  // the reply has arrived and is not used yet
        Queued,   // there is no room, and the request may wait for it
        Done      // decided, or not to be asked any more
    };

    /// The order in which stages are asked: likely denials first, then stores that reply sooner, then those that the
    /// request may wait for.
    enum class Order : std::uint8_t { Due, Local, Well, Ill, Queues };

    Context* context = nullptr;
    std::size_t begin = 0;  // limits of the round: [begin, end)
    std::size_t end = 0;
    State state = State::Open;
    Order order = Order::Well;
    bool isAfterHold = false;             // see Round::mayHold
    StoreError error = StoreError::None;  // Replied: why the store did not decide
};

/// The place that a request waits for: it asks the stage again when it is its turn.
struct AwaitedPlace final : Applicant {
    Context* context = nullptr;
    Stage* stage = nullptr;  // nullptr: it waits for none
    std::size_t limit = 0;   // of the round: the one without room
    ngx_msec_t since = 0;
    ngx_msec_t until = 0;
};

/// The limits that one location enforces on one request, or those of its dry run. Limits with the same destination are
/// adjacent: they are a stage, until an error of one of them causes each to be asked alone.
struct Round {
    Round* previous;             // of this location, or of the one before an internal redirect
    bool isDryRun;               // the decisions have no effect on the request
    bool isEachAlone;            // nor on each other
    bool mayHold;                // a limit may: those of algorithm=inflight are asked when that is over
    ngx_uint_t upstreamsBefore;  // the number of r->upstream_states when it began
    UniqueId unique;  // the unique name of the request in the logs of this round; another one than that of an earlier
                      // round, whose entries may leave the same log later
    std::size_t count;
    Decision* decisions;
    Check* checks;
    Verdict* verdicts;
    Permit* permits;  // nullptr: no limit has prefetch=
    Lease* leases;    // nullptr: no limit has algorithm=inflight
    Stage* stages;    // has room for one per limit
    std::size_t stageCount;

    std::span<Stage> allStages() const { return {stages, stageCount}; }
    std::span<Decision> all() const { return {decisions, count}; }

    /// The decision of the limit at this position in the configuration.
    const Decision& configured(std::size_t nth) const { return *std::ranges::find(all(), nth, &Decision::nth); }
};

/// An upstream that the request had before an internal redirect. It lives as long as the request.
struct ReplacedUpstream {
    const ReplacedUpstream* previous;
    ngx_http_upstream_t* upstream;
    std::size_t upstreams;  // the number of r->upstream_states, with its own
};

/// Some limits of a location, by their position.
using LimitSet = std::bitset<LocalStore::kMostLogs>;

struct Context {
    enum class State {
        Idle,     // no stage is out
        Waiting,  // one or more stores were asked; the request is suspended
        Replied,  // all have replied, or one is late and others are to be asked; the phases run again soon
        Queued,   // the request waits for a place
        Turn,     // it may ask for it, or its time is up; the phases run again soon
        Held,     // all limits that were asked have admitted the request, with a reservation
        Due       // the reservation is due; the phases run again soon
    };

    /// The request's Context, also after an internal redirect; nullptr if no limit has applied so far.
    static Context* of(ngx_http_request_t* request);

    /// Creates a Context that lives as long as the request; nullptr if memory is short.
    static Context* create(ngx_http_request_t* request);

    /// True if a limit of this name was asked, in this location or before an internal redirect. Limits that were asked
    /// only in a dry run are asked again when they are enforced.
    bool hasAsked(const LogSettings& log, bool isDryRun) const;

    /// True if any part of the request was sent to an upstream since the round began: what the round has logged stays
    /// counted.
    bool upstreamWorkedSince(const Round& since) const;

    ngx_http_request_t* request;
    State state;

    Round* round;        // the latest; nullptr: none yet
    LimitSet rehearsed;  // of the location, when its first round began: those in a dry run
    std::size_t out;     // the number of its stages that are out
    bool refused;        // the latest round is denied; only limits with count=all are still asked

    std::optional<Result> status;      // none: no round is decided
    const Decision* decider;           // shown by the variables
    const Decision* enforced;          // shown by the response fields; nullptr: no limit was enforced
    bool denied;                       // by this module: no more limits are asked
    bool refunds;                      // a limit that was asked has refund=
    bool settles;                      // a limit that was asked has settle=
    bool knowsCosts;                   // settle= was evaluated
    const ReplacedUpstream* replaced;  // the latest; nullptr: none, or no limit has settle=
    ngx_uint_t sentStatus;             // the status that was sent to the client, or is about to be; 0: none yet
    ngx_uint_t fields;        // a Fields, of the location that enforced last: an error page may be in another location
    std::int64_t retryAfter;  // seconds; 0: not sent
    ngx_msec_t longest;       // ms: the longest `timeout` of the stores to be asked so far, and the longest wait
    ngx_msec_t askedAt;       // Waiting: since when
    ngx_msec_t waited;        // ms, for all stores together; since it was last its turn
    ngx_msec_t dueAt;         // when the latest reservation of the round is due; 0: none, or it has been waited for
    ngx_event_t timer;        // used while Held or Queued, and while Waiting with open stages
    AwaitedPlace awaited;
    LateReply* lateReplies;  // all of the request
};

/// The pool cleanup of a Context: cancels the request. Its address also identifies our entry among the cleanups of the
/// pool. Defined in hold.cpp.
void cancelRequest(void* context) noexcept;

}  // namespace sliding_log
