// Names in Redis. A client chooses the key's value, so the value is kept only where it can do no harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

inline constexpr std::string_view kHashMark = "sha1-";
inline constexpr std::size_t kShownDigits = 8;
inline constexpr std::size_t kLongestPlainValue = 128;               // bytes
inline constexpr std::size_t kHashedLength = kHashMark.size() + 40;  // with the digits
inline constexpr std::size_t kLongestValue = kLongestPlainValue;     // of what writeLogKey() writes between braces

static_assert(kHashedLength <= kLongestValue);

/// Who may see the values of a limit's key: everybody who sees its logs, or nobody.
enum class Secrecy : std::uint8_t { Open, Secret };

/// True when the value can stand in a key as it is: at most 128 bytes of [A-Za-z0-9_.:/@-], and no hash by its look.
/// Anything else could choose its cluster slot (braces), be another client's key, or fill Redis with long names.
bool isPlainValue(std::string_view value);

/// The most bytes that writeLogKey() writes.
constexpr std::size_t logKeyCapacity(std::string_view prefix, std::string_view name) {
    return prefix.size() + name.size() + 3 + kLongestValue;
}

/// Writes `<prefix><name>:{<value>}`, or `{sha1-<40 hex>}` for a secret and a value that is not plain, and returns the
/// length. `out` has room for logKeyCapacity(). The braces are Redis Cluster's hash tag: one client, one slot.
std::size_t writeLogKey(char* out, std::string_view prefix, std::string_view name, std::string_view value,
                        Secrecy secrecy);

/// The limit's name in such a key, when its prefix is taken off.
constexpr std::string_view nameIn(std::string_view key) {
    return key.substr(0, key.find(":{"));
}

/// What stands in the braces of such a key, when its prefix is taken off.
constexpr std::string_view valueIn(std::string_view key, std::string_view name) {
    return key.substr(name.size() + 2, key.size() - name.size() - 3);
}

/// What people may see of a value as it stands in a key. The first digits of a secret's hash tell clients apart.
constexpr std::string_view shownValue(std::string_view stored, Secrecy secrecy) {
    return secrecy == Secrecy::Secret ? stored.substr(0, kHashMark.size() + kShownDigits) : stored;
}

/// `sha1-` and the value's SHA-1 in hex; `out` has room for kHashedLength.
void writeHashed(char* out, std::string_view value);

/// 40 hex digits of the text's SHA-1, as EVALSHA names a script; `out` has room for 40.
void writeSha1Hex(char* out, std::string_view text);

}  // namespace sliding_log
