// Values as text for people. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sliding_log::tool {

/// The text with every byte that is not printable ASCII, and the backslash, as `\xNN`: keys and ids come from clients,
/// and terminals execute some bytes.
std::string printable(std::string_view bytes);

/// `1,234,567`
std::string grouped(std::int64_t number);

/// `1 log`, `1,234 logs`.
std::string counted(std::int64_t number, std::string_view one, std::string_view many);

/// `512 B`, `1.4 kB`, `2.1 GB`: powers of 1000.
std::string byteSize(double bytes);

/// `250 ms`, `12.5 s`, `3 m 20 s`, `4 h 5 m`, `2 d 3 h`.
std::string duration(std::int64_t ms);

/// `2024-05-17T09:30:00.123Z`
std::string isoTime(std::int64_t ms);

/// With this number of digits after the point.
std::string decimal(double number, int digits);

/// nginx's time (`500ms`, `10s`, `1h30m`, `1d`; a bare number is in seconds), in ms.
std::optional<std::int64_t> parseTime(std::string_view text);

/// A whole number as in parseCount(), or one of thousands (`200k`), millions (`5m`) or thousands of millions (`1g`).
std::optional<std::int64_t> parseNumber(std::string_view text);

/// True if the bytes are valid UTF-8 (no surrogates, no overlong forms).
bool isUtf8(std::string_view bytes);

}  // namespace sliding_log::tool
