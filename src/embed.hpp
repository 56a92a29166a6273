// Files inside the module. config.make puts lua/ and src/dashboard/ on the assembler's include path.
#pragma once

#include <string_view>

#define EMBEDDED_FILE(name) ".incbin \"" name "\"\n"

/// Makes `files`, one or more EMBEDDED_FILE, the symbols sliding_log_<symbol>_begin and _end.
#define EMBED(symbol, files)                                                    \
    __asm__(                                                                    \
        ".pushsection .rodata\n"                                                \
        ".global sliding_log_" #symbol                                          \
        "_begin\n"                                                              \
        ".hidden sliding_log_" #symbol                                          \
        "_begin\n"                                                              \
        "sliding_log_" #symbol "_begin:\n" files ".global sliding_log_" #symbol \
        "_end\n"                                                                \
        ".hidden sliding_log_" #symbol                                          \
        "_end\n"                                                                \
        "sliding_log_" #symbol                                                  \
        "_end:\n"                                                               \
        ".popsection\n");                                                       \
    extern "C" {                                                                \
    extern const char sliding_log_##symbol##_begin[];                           \
    extern const char sliding_log_##symbol##_end[];                             \
    }                                                                           \
    static_assert(true)

/// The contents made by EMBED, as a std::string_view.
#define EMBEDDED(symbol) std::string_view(sliding_log_##symbol##_begin, sliding_log_##symbol##_end)
