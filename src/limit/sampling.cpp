#include "limit/sampling.hpp"

#include <charconv>

#include "limit/key.hpp"

namespace sliding_log {

std::int64_t sampledEntries(std::int64_t cost, std::int64_t sample, std::string_view unique) {
    constexpr int kDigits = 12;  // as in lua/sampled_log.lua
    char digest[40];
    writeSha1Hex(digest, unique);
    std::int64_t draw = 0;
    std::from_chars(digest, digest + kDigits, draw, 16);
    return cost / sample + (draw % sample < cost % sample ? 1 : 0);
}

}  // namespace sliding_log
