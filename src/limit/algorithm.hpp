// The algorithms by which a log is kept, sliding_log_limit's algorithm=: a row each, which says what the module and the
// tool have to know of one. How each keeps a log is in files of its own; docs/architecture.md lists them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace sliding_log {

enum class Algorithm : std::uint8_t {
    Log,      // one ZSET member a request, with an id
    Compact,  // the same decisions from the times alone, in one to two bytes a request
    Counter,  // a count for each window, the previous one weighted by its overlap
    Bucket,   // a token bucket
    Sampled   // one ZSET member for N requests
};

/// What a log is at its key in Redis.
enum class Storage : std::uint8_t { Zset, String, Hash };

/// How long it counts what a request took.
enum class Lasts : std::uint8_t {
    Window,      // until the window has passed it
    NextWindow,  // to the end of the window of the clock behind its own
    Refill       // until the bucket has refilled it, which has no end where a larger burst was taken
};

/// Those of sliding_log_limit that are for some algorithms alone.
enum class Parameter : std::uint8_t { Id, Burst, Sample };

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

/// About how long Redis works for a request, in ns, beside what the whole log takes.
struct Work {
    std::int64_t request;
    std::int64_t entry;     // besides, for each entry that it adds
    std::int64_t together;  // instead of both, of one entry that a command adds with others'; 0: none does
};

struct AlgorithmRow {
    Algorithm algorithm;
    std::string_view name;    // as algorithm= has it
    std::string_view script;  // its file in lua/
    std::string_view plain;   // the file of its plain call, which is in front of the script; empty: none
    Algorithm decidesAs;      // the same decisions for the same arrivals; itself mostly
    Storage storage;
    bool namesEntries;  // each has a name of its own: what is taken back twice has left once
    Parameters takes;
    std::int64_t mostEntries;  // of one request; 0: it keeps none, and takes any cost
    Lasts lasts;
    Work work;
};

/// By Algorithm.
inline constexpr std::array kAlgorithms = {
    AlgorithmRow{.algorithm = Algorithm::Log,
                 .name = "log",
                 .script = "sliding_log",
                 .plain = "plain_log",
                 .decidesAs = Algorithm::Log,
                 .storage = Storage::Zset,
                 .namesEntries = true,
                 .takes = {Parameter::Id},
                 .mostEntries = 1000,  // each is 100 bytes, and a command's time in Redis
                 .lasts = Lasts::Window,
                 .work = {.request = 1500, .entry = 1300, .together = 900}},
    AlgorithmRow{.algorithm = Algorithm::Compact,
                 .name = "compact",
                 .script = "compact_log",
                 .plain = "plain_compact",
                 .decidesAs = Algorithm::Log,
                 .storage = Storage::String,
                 .namesEntries = false,
                 .takes = {},
                 .mostEntries = 100'000,
                 .lasts = Lasts::Window,
                 .work = {.request = 200, .entry = 16, .together = 0}},
    AlgorithmRow{.algorithm = Algorithm::Counter,
                 .name = "counter",
                 .script = "sliding_counter",
                 .plain = "",
                 .decidesAs = Algorithm::Counter,
                 .storage = Storage::Hash,
                 .namesEntries = false,
                 .takes = {},
                 .mostEntries = 0,
                 .lasts = Lasts::NextWindow,
                 .work = {.request = 100, .entry = 0, .together = 0}},
    AlgorithmRow{.algorithm = Algorithm::Bucket,
                 .name = "bucket",
                 .script = "token_bucket",
                 .plain = "",
                 .decidesAs = Algorithm::Bucket,
                 .storage = Storage::Hash,
                 .namesEntries = false,
                 .takes = {Parameter::Burst},
                 .mostEntries = 0,
                 .lasts = Lasts::Refill,
                 .work = {.request = 100, .entry = 0, .together = 0}},
    AlgorithmRow{.algorithm = Algorithm::Sampled,
                 .name = "sampled",
                 .script = "sampled_log",
                 .plain = "",
                 .decidesAs = Algorithm::Sampled,
                 .storage = Storage::Zset,
                 .namesEntries = true,
                 .takes = {Parameter::Sample},
                 .mostEntries = 1000,
                 .lasts = Lasts::Window,
                 .work = {.request = 1700, .entry = 1300, .together = 0}},  // a SHA-1 draws
};

constexpr const AlgorithmRow& rowOf(Algorithm algorithm) {
    return kAlgorithms[static_cast<std::size_t>(algorithm)];
}

constexpr std::string_view nameOf(Algorithm algorithm) {
    return rowOf(algorithm).name;
}

constexpr bool takes(Algorithm algorithm, Parameter parameter) {
    return rowOf(algorithm).takes.has(parameter);
}

static_assert(std::ranges::all_of(kAlgorithms, [](const AlgorithmRow& row) { return &row == &rowOf(row.algorithm); }));

}  // namespace sliding_log
