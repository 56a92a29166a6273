#include "dashboard/json.hpp"

#include <charconv>
#include <cstddef>

namespace sliding_log {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

unsigned byteAt(std::string_view text, std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

bool isByteBetween(unsigned byte, unsigned least, unsigned most) {
    return least <= byte && byte <= most;
}

/// The length of the UTF-8 character at the beginning of the text; 0: not UTF-8. As in RFC 3629: no overlong forms, no
/// surrogates, nothing above U+10FFFF.
std::size_t lengthOfCharacter(std::string_view text) {
    const unsigned first = byteAt(text, 0);
    const unsigned second = byteAt(text, 1);
    const auto continues = [&](std::size_t i) { return isByteBetween(byteAt(text, i), 0x80, 0xbf); };
    if (first < 0x80) {
        return 1;
    }
    if (isByteBetween(first, 0xc2, 0xdf)) {
        return continues(1) ? 2 : 0;
    }
    if (isByteBetween(first, 0xe0, 0xef)) {
        const bool isSecond = isByteBetween(second, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
        return isSecond && continues(2) ? 3 : 0;
    }
    if (isByteBetween(first, 0xf0, 0xf4)) {
        const bool isSecond = isByteBetween(second, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
        return isSecond && continues(2) && continues(3) ? 4 : 0;
    }
    return 0;
}

/// `<` and similar characters are escaped, too, so that the text is harmless if it is taken for HTML.
bool isEscaped(unsigned char c) {
    return c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == '\'' || c == 0x7f;
}

}  // namespace

Json& Json::name(std::string_view name) {
    separate();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    isFirst_ = true;
    return *this;
}

Json& Json::text(std::string_view text) {
    separate();
    out_ += '"';
    while (!text.empty()) {
        const std::size_t length = lengthOfCharacter(text);
        const auto first = static_cast<unsigned char>(text[0]);
        if (length == 0) {
            out_ += kReplacement;
        } else if (isEscaped(first)) {
            out_ += "\\u00";
            out_ += "0123456789abcdef"[first >> 4];
            out_ += "0123456789abcdef"[first & 15];
        } else {
            out_ += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    out_ += '"';
    return *this;
}

Json& Json::number(std::uint64_t number) {
    char text[20];
    return literal({text, std::to_chars(text, text + sizeof text, number).ptr});
}

Json& Json::open(char bracket) {
    separate();
    out_ += bracket;
    isFirst_ = true;
    return *this;
}

Json& Json::close(char bracket) {
    out_ += bracket;
    isFirst_ = false;
    return *this;
}

Json& Json::literal(std::string_view literal) {
    separate();
    out_ += literal;
    return *this;
}

void Json::separate() {
    if (!isFirst_) {
        out_ += ',';
    }
    isFirst_ = false;
}

}  // namespace sliding_log
