#include "redis/scripts.hpp"

#include <cstddef>

#include "embed.hpp"
#include "limit/key.hpp"

// A script is an algorithm's file of lua/ as the function `algorithm`, and the frame of all behind it.
#define FUNCTION(name, file) \
    ".ascii \"local function " name "(...) \"\n" EMBEDDED_FILE(file ".lua") ".ascii \"end\\n\"\n"
#define SCRIPT(file) FUNCTION("algorithm", file) EMBEDDED_FILE("decide.lua")

EMBED(log, SCRIPT("sliding_log"));
EMBED(compact, SCRIPT("compact_log"));
EMBED(counter, SCRIPT("sliding_counter"));
EMBED(bucket, SCRIPT("token_bucket"));
EMBED(sampled, FUNCTION("exact_log", "sliding_log") SCRIPT("sampled_log"));

namespace sliding_log {

std::string_view scriptSource(Algorithm algorithm) {
    static const std::array<std::string_view, kScripts.size()> sources = {
        EMBEDDED(log), EMBEDDED(compact), EMBEDDED(counter), EMBEDDED(bucket), EMBEDDED(sampled),
    };
    return sources[static_cast<std::size_t>(algorithm)];
}

std::string_view scriptSha(Algorithm algorithm) {
    using Digests = std::array<std::array<char, 40>, kScripts.size()>;
    static const Digests digests = [] {
        Digests all;
        for (Algorithm each : kScripts) {
            writeSha1Hex(all[static_cast<std::size_t>(each)].data(), scriptSource(each));
        }
        return all;
    }();
    const std::array<char, 40>& digest = digests[static_cast<std::size_t>(algorithm)];
    return {digest.data(), digest.size()};
}

}  // namespace sliding_log
