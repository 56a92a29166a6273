#include "redis/info.hpp"

#include <charconv>

namespace sliding_log {

namespace {

/// The rest of the line that begins with `name:`.
std::optional<std::string_view> fieldOf(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
        if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
            return line.substr(name.size() + 1);
        }
        text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
    }
    return std::nullopt;
}

std::optional<std::uint64_t> numberOf(std::string_view text, std::string_view name) {
    const std::string_view field = fieldOf(text, name).value_or("");
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    const bool isNumber = error == std::errc() && end == field.data() + field.size();
    return isNumber ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<MemoryInfo> readMemoryInfo(std::string_view text) {
    const std::optional<std::uint64_t> used = numberOf(text, "used_memory");
    const std::optional<std::uint64_t> max = numberOf(text, "maxmemory");
    const std::optional<std::uint64_t> evicted = numberOf(text, "evicted_keys");
    const std::optional<std::string_view> policy = fieldOf(text, "maxmemory_policy");
    if (!used || !max || !evicted || !policy) {
        return std::nullopt;
    }
    return MemoryInfo{*used, *max, *evicted, isEvictionUnsafe(*policy)};
}

}  // namespace sliding_log
