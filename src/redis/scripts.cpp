#include "redis/scripts.hpp"

#include "limit/key.hpp"

// config.make puts lua/ on the assembler's include path.
#define EMBED(symbol, file)           \
    __asm__(                          \
        ".pushsection .rodata\n"      \
        ".global sliding_log_" symbol \
        "_begin\n"                    \
        ".hidden sliding_log_" symbol \
        "_begin\n"                    \
        "sliding_log_" symbol         \
        "_begin:\n"                   \
        ".incbin \"" file             \
        "\"\n"                        \
        ".global sliding_log_" symbol \
        "_end\n"                      \
        ".hidden sliding_log_" symbol \
        "_end\n"                      \
        "sliding_log_" symbol         \
        "_end:\n"                     \
        ".popsection\n")

EMBED("log", "sliding_log.lua");
EMBED("log_undo", "sliding_log_undo.lua");
EMBED("compact", "compact_log.lua");

extern "C" {
extern const char sliding_log_log_begin[];
extern const char sliding_log_log_end[];
extern const char sliding_log_log_undo_begin[];
extern const char sliding_log_log_undo_end[];
extern const char sliding_log_compact_begin[];
extern const char sliding_log_compact_end[];
}

namespace sliding_log {

namespace {

struct Embedded {
    const char* begin;
    const char* end;
};

constexpr std::array<Embedded, kScripts.size()> kEmbedded = {{
    {sliding_log_log_begin, sliding_log_log_end},
    {sliding_log_log_undo_begin, sliding_log_log_undo_end},
    {sliding_log_compact_begin, sliding_log_compact_end},
}};

}  // namespace

std::string_view scriptSource(Script script) {
    const Embedded& embedded = kEmbedded[static_cast<std::size_t>(script)];
    return {embedded.begin, static_cast<std::size_t>(embedded.end - embedded.begin)};
}

std::string_view scriptSha(Script script) {
    using Digests = std::array<std::array<char, 40>, kScripts.size()>;
    static const Digests digests = [] {
        Digests all;
        for (Script each : kScripts) {
            writeSha1Hex(all[static_cast<std::size_t>(each)].data(), scriptSource(each));
        }
        return all;
    }();
    const std::array<char, 40>& digest = digests[static_cast<std::size_t>(script)];
    return {digest.data(), digest.size()};
}

}  // namespace sliding_log
