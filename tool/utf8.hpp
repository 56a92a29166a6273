// UTF-8, one character at a time. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log::tool {

struct Decoded {
    std::uint32_t character;
    std::size_t length;  // bytes; 0: not UTF-8
};

/// The first character of bytes, which must not be empty.
constexpr Decoded decodeUtf8(std::string_view bytes) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])); };
    const std::uint32_t first = at(0);
    if (first < 0x80) {
        return {first, 1};
    }
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || bytes.size() < length) {
        return {0, 0};
    }
    std::uint32_t character = first & (0xffU >> (length + 1));
    for (std::size_t i = 1; i < length; i++) {
        if ((at(i) & 0xc0) != 0x80) {
            return {0, 0};
        }
        character = character << 6 | (at(i) & 0x3f);
    }
    constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool isSurrogate = character >= 0xd800 && character <= 0xdfff;
    if (character < least[length] || character > 0x10ffff || isSurrogate) {
        return {0, 0};
    }
    return {character, length};
}

}  // namespace sliding_log::tool
