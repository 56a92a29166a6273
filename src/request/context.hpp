// What this module knows of one request.
//
// Ownership: a Context lives in r->pool, from the first limit that applies until the pool goes, after the log phase,
// so that variables serve the access log. It is found through the module context and, after an internal redirect
// has cleared that, through its pool cleanup. While it waits its stages that were asked are in batches of their stores;
// the cleanup (client gone, request terminated) takes them out, and the batches' answers then find nobody. While it is
// held, or waits for one stage before it asks the next, its timer runs; the cleanup stops it and gives a reservation
// that was held back. It points at settings only.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "limit/source.hpp"
#include "ngx.hpp"
#include "redis/store_error.hpp"
#include "settings/settings.hpp"
#include "store/batch.hpp"
#include "store/orphan.hpp"

namespace sliding_log {

enum class Status { None, Passed, Delayed, DelayedDryRun, Rejected, RejectedDryRun };

/// One limit as this request met it.
struct Decision {
    static constexpr std::int64_t kUnknownLimit = -1;  // its variable is no whole number

    const LimitSettings* settings;
    std::int64_t limit;
    Source source;
    const Verdict* verdict;          // nullptr: nobody was asked, or the store could not tell
    std::uint64_t loggedMs;          // by the store's clock: for taking it back
    bool logged;                     // its log holds the request
    bool isLeaving;                  // its entries are about to be taken back
    std::size_t nth;                 // of its round, as configured
    std::string_view key;            // of its log, as it is stored; empty where a number is invalid
    LateReply* lateReply = nullptr;  // where its Redis did not answer, and may have logged the request

    bool isDenied() const { return source == Source::Invalid || (verdict != nullptr && !verdict->hasRoom()); }
    std::int64_t delayMs() const { return verdict == nullptr ? 0 : verdict->delayMs; }
};

/// What people may see of the key's value.
std::string_view shownKey(const Decision& decision);

/// True when an answer of that status gives the entries back.
inline bool isRefunded(const Decision& decision, ngx_uint_t status) {
    const LimitSettings::Statuses& statuses = decision.settings->refund;
    return status < statuses.size() && statuses[status];
}

struct Context;

/// Limits of a round that one call asks, next to each other, and the wait for its answer.
struct Stage final : Waiter {
    enum class State : std::uint8_t {
        Open,     // not asked yet
        Out,      // its store was asked
        Replied,  // the answer is here, and not taken over yet
        Done      // nothing more is asked
    };

    /// Which are asked before others: what is likely to deny, then what answers sooner.
    enum class Turn : std::uint8_t { Due, Local, Well, Ill };

    Context* context = nullptr;
    std::size_t begin = 0;  // of the round's limits: [begin, end)
    std::size_t end = 0;
    State state = State::Open;
    Turn turn = Turn::Well;
    StoreError error = StoreError::None;  // Replied: what kept the store from deciding
};

/// The limits that one location enforces on one request, or those that it then only rehearses. Those of one place are
/// next to each other: a stage, until an error of one of them has each asked by itself.
struct Round {
    Round* previous;             // of this location, or of the one before an internal redirect
    bool isDryRun;               // nothing follows from what these limits say
    bool isEachAlone;            // nor does one of them mind what another says
    ngx_uint_t upstreamsBefore;  // how many of r->upstream_states were there when it began
    std::string_view unique;     // the request's own name in its logs; not that of a round before, whose entries in the
                                 // same log may leave it later than this one's come
    std::size_t count;
    Decision* decisions;
    Check* checks;
    Verdict* verdicts;
    Stage* stages;  // there is room for one per limit
    std::size_t stageCount;

    std::span<Stage> allStages() const { return {stages, stageCount}; }
    std::span<Decision> all() const { return {decisions, count}; }

    /// In the order in which the configuration has them.
    const Decision& configured(std::size_t nth) const { return *std::ranges::find(all(), nth, &Decision::nth); }
};

struct Context {
    enum class State {
        Idle,     // nothing is out
        Waiting,  // a store was asked, or several; the request is suspended
        Replied,  // all have answered, or one is late and others are to be asked; the phases run again soon
        Held,     // every limit has admitted the request, for a later moment
        Due       // which has come; the phases run again soon
    };

    /// The request's Context, also after an internal redirect; nullptr when no limit applied so far.
    static Context* of(ngx_http_request_t* request);

    /// A new one, tied to the request's life; nullptr when memory is short.
    static Context* create(ngx_http_request_t* request);

    /// True when a limit of this name was asked, in this location or in one before an internal redirect. What was asked
    /// in a dry run only is asked again where it is enforced.
    bool hasAsked(const LogSettings& log, bool isDryRun) const;

    /// True when an upstream was sent something of the request since the round began: what the round has logged stays
    /// counted, whatever comes then.
    bool upstreamWorkedSince(const Round& since) const;

    ngx_http_request_t* request;
    State state;

    Round* round;                 // the latest; nullptr: none yet
    std::size_t out;              // how many of its stages are
    bool refused;                 // the latest round has come to a denial; only limits that count it are asked still
    std::array<char, 24> unique;  // the request's own name in the logs of its first round
    std::size_t uniqueLength;

    Status status;
    const Decision* decider;   // what the variables tell of
    const Decision* enforced;  // the same, where a limit was enforced: what the response fields tell of
    bool denied;               // answered with an error: nothing more is asked, and Retry-After is due
    bool refunds;              // a limit that was asked gives entries back for some answer
    ngx_uint_t sentStatus;     // the status that was sent to the client, or is about to be; 0: none yet
    ngx_uint_t fields;         // a Fields, of the location that enforced last: an error page may lie in another
    std::int64_t retryAfter;   // seconds; 0: not to be promised
    ngx_msec_t longest;        // the longest `timeout` of the stores it was to ask so far: it never waits longer
    ngx_msec_t askedAt;        // Waiting: since when
    ngx_msec_t waited;         // ms, for all stores together
    ngx_msec_t dueAt;          // when the latest reservation of the round is due; 0: none
    ngx_event_t timer;         // while Held; while Waiting, where stages are open
    LateReply* lateReplies;    // all of the request's

    std::string_view uniqueId() const { return {unique.data(), uniqueLength}; }
};

/// The pool cleanup of a Context: cancels whatever the request does. Its address also marks our entry among the
/// cleanups of the pool. Defined in hold.cpp.
void cancelRequest(void* context) noexcept;

}  // namespace sliding_log
