#include "node/signature.hpp"

#include <functional>

#include "limit/number.hpp"
#include "limit/options_text.hpp"

namespace sliding_log {

namespace {

/// The multiplier is 2^64 divided by the golden ratio; the shift brings the high bits, which all input has reached,
/// down to where a remainder is taken.
std::uint64_t mix(std::uint64_t hash, std::uint64_t more) {
    const std::uint64_t product = (hash ^ more) * 0x9E37'79B9'7F4A'7C15;
    return product ^ product >> 32;
}

/// Of each check: its limit, the length of its options, its algorithm; its window.
constexpr std::size_t kBytesOfNumbers = 2 * sizeof(std::uint64_t);
constexpr unsigned kBitsBesideLimit = 24;
static_assert(kLargestCount < std::int64_t{1} << (64 - kBitsBesideLimit));

}  // namespace

std::uint32_t Signature::hashOfLog(std::string_view key) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(key));
}

bool Signature::isOfLog(std::string_view text, std::uint64_t store, std::string_view key) {
    constexpr std::size_t kNumbers = sizeof store + kBytesOfNumbers;
    const std::string_view number(reinterpret_cast<const char*>(&store), sizeof store);
    return text.starts_with(number) && text.size() > kNumbers && text.substr(kNumbers).starts_with(key);
}

void Signature::assign(std::uint64_t store, std::span<const Check> checks) {
    text.clear();
    identityHash = store;
    logCount = 0;
    bool hasCosts = false;
    for (const Check& check : checks) {
        const OptionsText options = OptionsText::withoutCost(check);
        const std::string_view words = options.view();
        // the closing brace at the end of a key is the only one
        const std::uint64_t numbers[] = {store,
                                         static_cast<std::uint64_t>(check.limit) << kBitsBesideLimit |
                                             words.size() << 8 | static_cast<std::uint64_t>(check.algorithm),
                                         static_cast<std::uint64_t>(check.windowMs)};
        static_assert(sizeof numbers == sizeof store + kBytesOfNumbers);
        const std::size_t known = text.empty() ? 0 : sizeof store;  // the store is told once
        text.append(reinterpret_cast<const char*>(numbers) + known, sizeof numbers - known).append(check.key);
        const std::uint64_t key = std::hash<std::string_view>()(check.key);
        if (logCount < kMostLogs) {
            logHashes[logCount++] = static_cast<std::uint32_t>(key);
        }
        identityHash = mix(mix(mix(identityHash, key), numbers[1]), numbers[2]);
        if (!words.empty()) {
            text.append(words);
            identityHash = mix(identityHash, std::hash<std::string_view>()(words));
        }
        hasCosts = hasCosts || check.cost != 1;
    }
    hash = identityHash;
    identityBytes = text.size();
    hasAny = false;
    if (hasCosts) {
        for (const Check& check : checks) {
            text.append(reinterpret_cast<const char*>(&check.cost), sizeof check.cost);
            hash = mix(hash, static_cast<std::uint64_t>(check.cost));
        }
    }
}

void Signature::leaveOutCosts() {
    text.resize(identityBytes);
    hash = identityHash;
    hasAny = true;
}

}  // namespace sliding_log
