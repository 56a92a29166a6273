#include "redis/scripts.hpp"

#include <cstddef>

#include "embed.hpp"
#include "limit/key.hpp"

// A script is an algorithm's file of lua/ as the function `algorithm`, and override.lua as the function `overrides`,
// followed by the frame of all algorithms. The file of its plain call, if there is one, precedes all of them: it
// replies, or leaves the call to the frame. Those of HASHes have their part in common. Entries that are renewed have a
// call of their own, before that. prelude.lua precedes everything.
#define FUNCTION(name, file) \
    ".ascii \"local function " name "(...) \"\n" EMBEDDED_FILE(file ".lua") ".ascii \"end\\n\"\n"
#define SCRIPT(file) FUNCTION("algorithm", file) FUNCTION("overrides", "override") EMBEDDED_FILE("decide.lua")
#define PRELUDE EMBEDDED_FILE("prelude.lua")
#define PLAIN(file) EMBEDDED_FILE(file ".lua") EMBEDDED_FILE("plain_rest.lua")
#define HASH(plain, file) \
    PRELUDE FUNCTION("plain_of_hash", plain) PLAIN("plain_hash") FUNCTION("blocks_of_hash", "hash_block") SCRIPT(file)

EMBED(sliding_log, PRELUDE PLAIN("plain_log") SCRIPT("sliding_log"));
EMBED(compact_log, PRELUDE PLAIN("plain_compact") SCRIPT("compact_log"));
EMBED(sliding_counter, HASH("plain_counter", "sliding_counter"));
EMBED(token_bucket, HASH("plain_bucket", "token_bucket"));
EMBED(calendar_quota, PRELUDE SCRIPT("calendar_quota"));
EMBED(sampled_log, PRELUDE FUNCTION("exact_log", "sliding_log") SCRIPT("sampled_log"));
EMBED(inflight,
      PRELUDE EMBEDDED_FILE("renewal.lua") PLAIN("plain_log") FUNCTION("exact_log", "sliding_log") SCRIPT("inflight"));

#define SOURCE_OF(which, file)                                  \
    case Algorithm::which:                                      \
        static_assert(rowOf(Algorithm::which).script == #file); \
        return EMBEDDED(file)

namespace sliding_log {

std::string_view scriptSource(Algorithm algorithm) {
    switch (algorithm) {
        SOURCE_OF(Log, sliding_log);
        SOURCE_OF(Compact, compact_log);
        SOURCE_OF(Counter, sliding_counter);
        SOURCE_OF(Bucket, token_bucket);
        SOURCE_OF(Sampled, sampled_log);
        SOURCE_OF(Quota, calendar_quota);
        SOURCE_OF(Inflight, inflight);
    }
    __builtin_unreachable();
}

std::string_view scriptSha(Algorithm algorithm) {
    using Digests = std::array<std::array<char, 40>, kAlgorithms.size()>;
    static const Digests digests = [] {
        Digests all;
        for (const AlgorithmRow& row : kAlgorithms) {
            writeSha1Hex(all[static_cast<std::size_t>(row.algorithm)].data(), scriptSource(row.algorithm));
        }
        return all;
    }();
    const std::array<char, 40>& digest = digests[static_cast<std::size_t>(algorithm)];
    return {digest.data(), digest.size()};
}

}  // namespace sliding_log
