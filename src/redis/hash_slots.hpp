// The slot of a key, one of 16384, and the contents of redirects. Pure.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "redis/endpoint.hpp"

namespace sliding_log {

inline constexpr std::size_t kHashSlots = 16384;

namespace detail {

/// CRC-16/XMODEM by bytes: polynomial 0x1021, not reflected, initial value 0.
constexpr std::array<std::uint16_t, 256> crc16Table() {
    std::array<std::uint16_t, 256> table{};
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned crc = byte << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
        }
        table[byte] = static_cast<std::uint16_t>(crc);
    }
    return table;
}

inline constexpr std::array<std::uint16_t, 256> kCrc16Table = crc16Table();

}  // namespace detail

constexpr std::uint16_t crc16(std::string_view text) {
    unsigned crc = 0;
    for (const char c : text) {
        crc = (crc << 8) ^ detail::kCrc16Table[((crc >> 8) ^ static_cast<unsigned char>(c)) & 0xff];
    }
    return static_cast<std::uint16_t>(crc);
}

/// The part of a key that determines the slot: between the first `{` and the next `}`, unless that is empty; otherwise
/// the whole key.
constexpr std::string_view hashTag(std::string_view key) {
    const std::size_t open = key.find('{');
    const std::size_t close = open == std::string_view::npos ? open : key.find('}', open + 1);
    if (close == std::string_view::npos || close == open + 1) {
        return key;
    }
    return key.substr(open + 1, close - open - 1);
}

constexpr std::uint16_t hashSlotOf(std::string_view key) {
    return crc16(hashTag(key)) % kHashSlots;
}

/// `MOVED 3999 127.0.0.1:6381` or `ASK …`. IPv6 addresses come without brackets; an empty host is the server that
/// answered.
struct Redirect {
    std::uint16_t hashSlot;
    std::string host;
    int port;
};

inline std::optional<Redirect> readRedirect(std::string_view message) {
    const std::size_t first = message.find(' ');
    const std::size_t second = first == std::string_view::npos ? first : message.find(' ', first + 1);
    const std::size_t colon = message.rfind(':');
    if (second == std::string_view::npos || colon == std::string_view::npos || colon < second) {
        return std::nullopt;
    }
    unsigned hashSlot = 0;
    const auto [end, error] = std::from_chars(message.data() + first + 1, message.data() + second, hashSlot);
    const std::optional<int> port = parsePort(message.substr(colon + 1));
    if (error != std::errc() || end != message.data() + second || hashSlot >= kHashSlots || !port) {
        return std::nullopt;
    }
    std::string_view host = message.substr(second + 1, colon - second - 1);
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
    }
    if (!host.empty() && !isHost(host)) {
        return std::nullopt;
    }
    return Redirect{static_cast<std::uint16_t>(hashSlot), std::string(host), *port};
}

}  // namespace sliding_log
