// The algorithms of sliding_log_limit's algorithm=. Each has a row with what the module and the tool need to know of
// it. How an algorithm keeps its logs is in its own files; docs/architecture.md lists them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "limit/parameter.hpp"

namespace sliding_log {

enum class Algorithm : std::uint8_t {
    Log,      // one ZSET member per request, with an id
    Compact,  // the same decisions as Log, from the times alone: one to two bytes per request
    Counter,  // a count per window; the previous one is weighted by its overlap
    Bucket,   // a token bucket
    Sampled,  // one ZSET member per N requests
    Quota,    // a count per period of the calendar
    Inflight  // one ZSET member per request under way
};

/// The type of a log's key in Redis.
enum class Storage : std::uint8_t { Zset, String, Hash };

/// How long a log counts a request.
enum class Lasts : std::uint8_t {
    Window,      // until it has left the window
    NextWindow,  // until the end of the window of the clock that follows its own
    Refill,      // until the bucket is refilled; without a bound if a larger burst was used before
    Period,      // until its period of the calendar ends, or the next one if the clock has stepped back
    Lease        // until it ends, or for a lease after its latest renewal
};

/// The default of sample=.
inline constexpr std::int64_t kDefaultSample = 10;

/// The default of lease=, in ms.
inline constexpr std::int64_t kDefaultLeaseMs = 30'000;

class Parameters {
  public:
    constexpr Parameters(std::initializer_list<Parameter> parameters) {
        for (Parameter each : parameters) {
            bits_ |= bit(each);
        }
    }
    constexpr bool has(Parameter parameter) const { return (bits_ & bit(parameter)) != 0; }

  private:
    static constexpr unsigned bit(Parameter parameter) { return 1U << static_cast<unsigned>(parameter); }

    unsigned bits_ = 0;
};

/// Estimates, in ns, of the time that Redis takes for a request, without the time for the whole log (see work.hpp).
struct Work {
    std::int64_t request;
    std::int64_t entry;        // in addition, for each entry that it adds
    std::int64_t together;     // replaces both for entries that one command adds together; 0: never
    std::int64_t missing = 0;  // for each entry that has to leave before there is room for a request; see work.hpp
};

/// In what an algorithm differs from a log of a window, by name: other files ask for these, not for the algorithm.
struct Traits {
    bool countsPeriods = false;     // of the calendar, in place of a window that ends now
    bool countsUnderWay = false;    // requests at once, until they end: an entry leaves with its request
    bool hasLeases = false;         // an entry lasts for a lease, and its worker renews it by the clock of the store
    bool queues = false;            // what delay= is for: to wait until another request ends; else it reserves a time
    bool isAskedAfterHold = false;  // a request that is held takes no entry before
};

struct AlgorithmRow {
    Algorithm algorithm;
    std::string_view name;         // the value of algorithm=
    std::string_view script;       // its file in lua/
    std::string_view plain;        // the file of its plain call, in front of the script; empty: none
    bool hasPlainCosts;            // plain calls may have costs
    bool hasPlainOptions = false;  // and options that are of use only to a request without room
    Algorithm decidesAs;           // the algorithm with the same decisions for the same arrivals; usually itself
    Storage storage;
    bool namesEntries;         // entries have names, so that a take-back can be repeated
    Parameters takes;          // of those that only some algorithms take
    std::int64_t mostEntries;  // of one request; 0: any, since a cost is kept as a number
    Lasts lasts;
    Work work;
    Traits traits = {};
};

/// Indexed by Algorithm.
inline constexpr std::array kAlgorithms = {
    AlgorithmRow{.algorithm = Algorithm::Log,
                 .name = "log",
                 .script = "sliding_log",
                 .plain = "plain_log",
                 .hasPlainCosts = false,
                 .hasPlainOptions = true,
                 .decidesAs = Algorithm::Log,
                 .storage = Storage::Zset,
                 .namesEntries = true,
                 .takes = {Parameter::Window, Parameter::Cap, Parameter::Refund, Parameter::Id, Parameter::Count,
                           Parameter::Delay, Parameter::Block, Parameter::Prefetch},
                 .mostEntries = 1000,  // each takes 100 bytes, and time of a command in Redis
                 .lasts = Lasts::Window,
                 .work = {.request = 1500, .entry = 1300, .together = 900}},
    AlgorithmRow{.algorithm = Algorithm::Compact,
                 .name = "compact",
                 .script = "compact_log",
                 .plain = "plain_compact",
                 .hasPlainCosts = true,
                 .hasPlainOptions = true,
                 .decidesAs = Algorithm::Log,
                 .storage = Storage::String,
                 .namesEntries = false,
                 .takes = {Parameter::Window, Parameter::Cap, Parameter::Refund, Parameter::Count, Parameter::Delay,
                           Parameter::Block, Parameter::Prefetch, Parameter::Settle},
                 .mostEntries = 0,  // a run of one time takes a few bytes
                 .lasts = Lasts::Window,
                 .work = {.request = 200, .entry = 0, .together = 0, .missing = 50}},
    AlgorithmRow{.algorithm = Algorithm::Counter,
                 .name = "counter",
                 .script = "sliding_counter",
                 .plain = "plain_counter",
                 .hasPlainCosts = true,
                 .hasPlainOptions = true,
                 .decidesAs = Algorithm::Counter,
                 .storage = Storage::Hash,
                 .namesEntries = false,
                 .takes = {Parameter::Window, Parameter::Cap, Parameter::Refund, Parameter::Count, Parameter::Delay,
                           Parameter::Block, Parameter::Settle},
                 .mostEntries = 0,
                 .lasts = Lasts::NextWindow,
                 .work = {.request = 100, .entry = 0, .together = 0}},
    AlgorithmRow{.algorithm = Algorithm::Bucket,
                 .name = "bucket",
                 .script = "token_bucket",
                 .plain = "plain_bucket",
                 .hasPlainCosts = true,
                 .hasPlainOptions = true,
                 .decidesAs = Algorithm::Bucket,
                 .storage = Storage::Hash,
                 .namesEntries = false,
                 .takes = {Parameter::Window, Parameter::Cap, Parameter::Refund, Parameter::Count, Parameter::Delay,
                           Parameter::Block, Parameter::Burst, Parameter::Settle},
                 .mostEntries = 0,
                 .lasts = Lasts::Refill,
                 .work = {.request = 100, .entry = 0, .together = 0}},
    AlgorithmRow{.algorithm = Algorithm::Sampled,
                 .name = "sampled",
                 .script = "sampled_log",
                 .plain = "",
                 .hasPlainCosts = false,
                 .decidesAs = Algorithm::Sampled,
                 .storage = Storage::Zset,
                 .namesEntries = true,
                 .takes = {Parameter::Window, Parameter::Cap, Parameter::Refund, Parameter::Count, Parameter::Delay,
                           Parameter::Block, Parameter::Sample},
                 .mostEntries = 1000,
                 .lasts = Lasts::Window,
                 .work = {.request = 2000, .entry = 1300, .together = 0}},  // a SHA-1 draws the sample
    AlgorithmRow{.algorithm = Algorithm::Quota,
                 .name = "quota",
                 .script = "calendar_quota",
                 .plain = "",
                 .hasPlainCosts = false,
                 .decidesAs = Algorithm::Quota,
                 .storage = Storage::Hash,
                 .namesEntries = false,
                 .takes = {Parameter::Period, Parameter::Refund, Parameter::Settle},
                 .mostEntries = 0,
                 .lasts = Lasts::Period,
                 .work = {.request = 100, .entry = 0, .together = 0},
                 .traits = {.countsPeriods = true}},
    AlgorithmRow{.algorithm = Algorithm::Inflight,
                 .name = "inflight",
                 .script = "inflight",
                 .plain = "plain_log",
                 .hasPlainCosts = false,
                 .decidesAs = Algorithm::Inflight,
                 .storage = Storage::Zset,
                 .namesEntries = true,
                 .takes = {Parameter::Lease, Parameter::Delay},
                 .mostEntries = 1000,
                 .lasts = Lasts::Lease,
                 .work = {.request = 1500, .entry = 1300, .together = 1100},
                 .traits = {.countsUnderWay = true, .hasLeases = true, .queues = true, .isAskedAfterHold = true}},
};

constexpr const AlgorithmRow& rowOf(Algorithm algorithm) {
    return kAlgorithms[static_cast<std::size_t>(algorithm)];
}

constexpr std::string_view nameOf(Algorithm algorithm) {
    return rowOf(algorithm).name;
}

constexpr const Traits& traitsOf(Algorithm algorithm) {
    return rowOf(algorithm).traits;
}

constexpr bool takes(Algorithm algorithm, Parameter parameter) {
    return rowOf(algorithm).takes.has(parameter);
}

/// The native module has a shorter way for plain calls, and short calls for it.
constexpr bool hasShortCalls(const AlgorithmRow& row) {
    return !row.plain.empty() && row.storage != Storage::Hash;
}

/// True if only some algorithms take the parameter: those whose rows have it. All take the others.
constexpr bool isOfSome(Parameter parameter) {
    return std::ranges::any_of(kAlgorithms, [=](const AlgorithmRow& row) { return row.takes.has(parameter); });
}

static_assert(std::ranges::all_of(kAlgorithms, [](const AlgorithmRow& row) { return &row == &rowOf(row.algorithm); }));
static_assert(std::ranges::all_of(kAlgorithms, [](const AlgorithmRow& row) {
    return row.traits.countsPeriods == row.takes.has(Parameter::Period) &&
           row.traits.hasLeases == row.takes.has(Parameter::Lease);
}));

}  // namespace sliding_log
