#include "redis/scripts.hpp"

#include <cstddef>

#include "embed.hpp"
#include "limit/key.hpp"

#define FILE_OF_LUA(name) EMBEDDED_FILE(name ".lua")

EMBED(log, FILE_OF_LUA("sliding_log") FILE_OF_LUA("decide"));
EMBED(compact, FILE_OF_LUA("compact_log") FILE_OF_LUA("decide"));
EMBED(counter, FILE_OF_LUA("sliding_counter") FILE_OF_LUA("decide"));
EMBED(bucket, FILE_OF_LUA("token_bucket") FILE_OF_LUA("decide"));
EMBED(sampled, FILE_OF_LUA("sliding_log") FILE_OF_LUA("sampled_log") FILE_OF_LUA("decide"));

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
