// Names in Redis. A client chooses the key's value, so the value is kept only where it can do no harm.
#pragma once

#include <cstddef>
#include <string_view>

namespace sliding_log {

inline constexpr std::size_t kLongestPlainValue = 128;            // bytes
inline constexpr std::size_t kHashedLength = 5 + 40;              // "sha1-" and the digits
inline constexpr std::size_t kLongestValue = kLongestPlainValue;  // of what writeValue() writes

static_assert(kHashedLength <= kLongestValue);

/// True when the value can stand in a key as it is: at most 128 bytes of [A-Za-z0-9_.:/@-]. Anything else could
/// choose its cluster slot (braces), look like another key, or fill Redis with long names.
bool isPlainValue(std::string_view value);

/// The most bytes that writeLogKey() writes.
constexpr std::size_t logKeyCapacity(std::string_view prefix, std::string_view name) {
    return prefix.size() + name.size() + 3 + kLongestValue;
}

/// Writes `<prefix><name>:{<value>}`, or `{sha1-<40 hex>}` for a value that is not plain, and returns the length.
/// `out` has room for logKeyCapacity(). The braces are Redis Cluster's hash tag: one client, one slot.
std::size_t writeLogKey(char* out, std::string_view prefix, std::string_view name, std::string_view value);

/// What stands in the braces of such a key, when its prefix is taken off.
constexpr std::string_view valueIn(std::string_view key, std::string_view name) {
    return key.substr(name.size() + 2, key.size() - name.size() - 3);
}

/// `sha1-` and the value's SHA-1 in hex; `out` has room for kHashedLength.
void writeHashed(char* out, std::string_view value);

/// 40 hex digits of the text's SHA-1, as EVALSHA names a script; `out` has room for 40.
void writeSha1Hex(char* out, std::string_view text);

}  // namespace sliding_log
