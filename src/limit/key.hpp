// Names of logs in Redis. A client chooses the value of a key, so it is stored unchanged only if it can do no harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

inline constexpr std::string_view kHashMark = "sha1-";
inline constexpr std::size_t kShownDigits = 8;
inline constexpr std::size_t kLongestPlainValue = 128;               // bytes
inline constexpr std::size_t kHashedLength = kHashMark.size() + 40;  // with the digits
inline constexpr std::size_t kLongestValue = kLongestPlainValue;     // of what writeLogKey() writes between the braces

static_assert(kHashedLength <= kLongestValue);

/// Whether the values of a limit's key may be seen. Secret: they are stored and shown as hashes.
enum class Secrecy : std::uint8_t { Open, Secret };

/// True if the value can be in a key unchanged: at most 128 bytes of [A-Za-z0-9_.:/@-], and not like a hash. Any other
/// value could choose its hash slot (braces), be the key of another client, or fill Redis with long names.
bool isPlainValue(std::string_view value);

/// The maximum length in bytes that writeLogKey() writes.
constexpr std::size_t logKeyCapacity(std::string_view prefix, std::string_view name) {
    return prefix.size() + name.size() + 3 + kLongestValue;
}

/// Writes `<prefix><name>:{<value>}`, or `{sha1-<40 hex>}` for a secret value and one that is not plain, and returns
/// the length. `out` must have room for logKeyCapacity(). The braces are the hash tag of Redis Cluster: all logs of one
/// value are in one hash slot.
std::size_t writeLogKey(char* out, std::string_view prefix, std::string_view name, std::string_view value,
                        Secrecy secrecy);

/// The limit's name in such a key, without its prefix.
constexpr std::string_view nameIn(std::string_view key) {
    return key.substr(0, key.find(":{"));
}

/// The text between the braces of such a key, without its prefix.
constexpr std::string_view valueIn(std::string_view key, std::string_view name) {
    return key.substr(name.size() + 2, key.size() - name.size() - 3);
}

/// What may be shown of a value as it is in a key. The first digits of a secret value's hash distinguish clients.
constexpr std::string_view shownValue(std::string_view stored, Secrecy secrecy) {
    return secrecy == Secrecy::Secret ? stored.substr(0, kHashMark.size() + kShownDigits) : stored;
}

/// Writes `sha1-` and the SHA-1 of the value in hex; `out` must have room for kHashedLength.
void writeHashed(char* out, std::string_view value);

/// Writes the SHA-1 of the text as 40 hex digits, as EVALSHA names a script; `out` must have room for 40.
void writeSha1Hex(char* out, std::string_view text);

}  // namespace sliding_log
