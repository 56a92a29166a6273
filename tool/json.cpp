#include "json.hpp"

#include <array>
#include <cstdio>

#include "text.hpp"
#include "utf8.hpp"

namespace sliding_log::tool {

namespace {

void appendUnit(std::string& out, std::uint32_t unit) {
    std::array<char, 8> escaped;
    std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(unit & 0xffff));
    out.append(escaped.data());
}

void appendCharacter(std::string& out, std::uint32_t character) {
    if (character == '"' || character == '\\') {
        out.push_back('\\');
        out.push_back(static_cast<char>(character));
    } else if (character >= ' ' && character <= '~') {
        out.push_back(static_cast<char>(character));
    } else if (character < 0x10000) {
        appendUnit(out, character);
    } else {
        appendUnit(out, 0xd800 + ((character - 0x10000) >> 10));
        appendUnit(out, 0xdc00 + ((character - 0x10000) & 0x3ff));
    }
}

}  // namespace

void Json::separate() {
    if (comma_) {
        out_.push_back(',');
    }
}

Json& Json::open(char bracket) {
    separate();
    out_.push_back(bracket);
    comma_ = false;
    return *this;
}

Json& Json::close(char bracket) {
    out_.push_back(bracket);
    comma_ = true;
    return *this;
}

Json& Json::raw(std::string_view value) {
    separate();
    out_.append(value);
    comma_ = true;
    return *this;
}

Json& Json::number(double value, int digits) {
    return raw(decimal(value, digits));
}

Json& Json::name(std::string_view text) {
    this->text(text);
    out_.push_back(':');
    comma_ = false;
    return *this;
}

Json& Json::text(std::string_view value) {
    separate();
    out_.push_back('"');
    while (!value.empty()) {
        const Decoded decoded = decodeUtf8(value);
        appendCharacter(out_, decoded.length == 0 ? 0xfffd : decoded.character);
        value.remove_prefix(decoded.length == 0 ? 1 : decoded.length);
    }
    out_.push_back('"');
    comma_ = true;
    return *this;
}

Json& Json::bytes(std::string_view of, std::string_view value) {
    member(of, value);
    if (!isUtf8(value)) {
        std::string hex;
        for (const char c : value) {
            std::array<char, 3> digits;
            std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(c));
            hex.append(digits.data());
        }
        member(std::string(of).append("_hex"), hex);
    }
    return *this;
}

}  // namespace sliding_log::tool
