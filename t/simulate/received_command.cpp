#include "received_command.hpp"

#include <charconv>

namespace simulate {

std::vector<std::string_view> firstCommand(std::string_view bytes, std::size_t& used) {
    std::size_t at = 0;
    const auto number = [&](char kind, std::size_t& value) {
        const std::size_t end = bytes.find("\r\n", at);
        if (end == std::string_view::npos || bytes[at] != kind) {
            return false;
        }
        std::from_chars(bytes.data() + at + 1, bytes.data() + end, value);
        at = end + 2;
        return true;
    };
    std::vector<std::string_view> words;
    std::size_t count = 0;
    if (!number('*', count)) {
        return {};
    }
    for (std::size_t i = 0; i < count; i++) {
        std::size_t length = 0;
        if (at >= bytes.size() || !number('$', length) || bytes.size() < at + length + 2) {
            return {};
        }
        words.push_back(bytes.substr(at, length));
        at += length + 2;
    }
    used = at;
    return words;
}

}  // namespace simulate
