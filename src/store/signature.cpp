#include "store/signature.hpp"

#include <functional>

#include "limit/options_text.hpp"

namespace sliding_log {

namespace {

/// The multiplier is 2^64 divided by the golden ratio; the shift brings the high bits, which all input has reached,
/// down to where a remainder is taken.
std::uint64_t mix(std::uint64_t hash, std::uint64_t more) {
    const std::uint64_t product = (hash ^ more) * 0x9E37'79B9'7F4A'7C15;
    return product ^ product >> 32;
}

}  // namespace

std::uint32_t Signature::hashOfLog(std::string_view key) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(key));
}

bool Signature::isOfLog(std::string_view text, std::uint64_t store, std::string_view key) {
    constexpr std::size_t kNumbers = 4 * sizeof(std::uint64_t);
    const std::string_view number(reinterpret_cast<const char*>(&store), sizeof store);
    return text.starts_with(number) && text.size() > kNumbers && text.substr(kNumbers).starts_with(key);
}

void Signature::assign(std::uint64_t store, std::span<const Check> checks) {
    text.clear();
    hash = store;
    logCount = 0;
    for (const Check& check : checks) {
        const OptionsText options(check);
        const std::string_view words = options.view();
        // the closing brace at the end of a key is the only one
        const std::uint64_t numbers[] = {store, static_cast<std::uint64_t>(check.limit),
                                         static_cast<std::uint64_t>(check.windowMs),
                                         words.size() << 8 | static_cast<std::uint64_t>(check.algorithm)};
        text.append(reinterpret_cast<const char*>(numbers), sizeof numbers).append(check.key);
        const std::uint64_t key = std::hash<std::string_view>()(check.key);
        if (logCount < kMostLogs) {
            logHashes[logCount++] = static_cast<std::uint32_t>(key);
        }
        hash = mix(mix(hash, key), numbers[1] ^ numbers[2] << 32 ^ numbers[3] << 56);
        if (!words.empty()) {
            text.append(words);
            hash = mix(hash, std::hash<std::string_view>()(words));
        }
    }
}

}  // namespace sliding_log
