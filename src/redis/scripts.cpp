#include "redis/scripts.hpp"

#include <cstddef>

#include "limit/key.hpp"

// config.make puts lua/ on the assembler's include path.
#define FILE_OF_LUA(name) ".incbin \"" name ".lua\"\n"
#define EMBED(symbol, files)                                                  \
    __asm__(                                                                  \
        ".pushsection .rodata\n"                                              \
        ".global sliding_log_" symbol                                         \
        "_begin\n"                                                            \
        ".hidden sliding_log_" symbol                                         \
        "_begin\n"                                                            \
        "sliding_log_" symbol "_begin:\n" files ".global sliding_log_" symbol \
        "_end\n"                                                              \
        ".hidden sliding_log_" symbol                                         \
        "_end\n"                                                              \
        "sliding_log_" symbol                                                 \
        "_end:\n"                                                             \
        ".popsection\n")

EMBED("log", FILE_OF_LUA("sliding_log") FILE_OF_LUA("decide"));
EMBED("compact", FILE_OF_LUA("compact_log") FILE_OF_LUA("decide"));
EMBED("counter", FILE_OF_LUA("sliding_counter") FILE_OF_LUA("decide"));
EMBED("bucket", FILE_OF_LUA("token_bucket") FILE_OF_LUA("decide"));
EMBED("sampled", FILE_OF_LUA("sliding_log") FILE_OF_LUA("sampled_log") FILE_OF_LUA("decide"));

extern "C" {
extern const char sliding_log_log_begin[];
extern const char sliding_log_log_end[];
extern const char sliding_log_compact_begin[];
extern const char sliding_log_compact_end[];
extern const char sliding_log_counter_begin[];
extern const char sliding_log_counter_end[];
extern const char sliding_log_bucket_begin[];
extern const char sliding_log_bucket_end[];
extern const char sliding_log_sampled_begin[];
extern const char sliding_log_sampled_end[];
}

namespace sliding_log {

namespace {

struct Embedded {
    const char* begin;
    const char* end;
};

constexpr std::array<Embedded, kScripts.size()> kEmbedded = {{
    {sliding_log_log_begin, sliding_log_log_end},
    {sliding_log_compact_begin, sliding_log_compact_end},
    {sliding_log_counter_begin, sliding_log_counter_end},
    {sliding_log_bucket_begin, sliding_log_bucket_end},
    {sliding_log_sampled_begin, sliding_log_sampled_end},
}};

}  // namespace

std::string_view scriptSource(Algorithm algorithm) {
    const Embedded& embedded = kEmbedded[static_cast<std::size_t>(algorithm)];
    return {embedded.begin, static_cast<std::size_t>(embedded.end - embedded.begin)};
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
