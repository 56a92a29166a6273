#include "blocks.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "limit/block_form.hpp"
#include "limit/compact_head.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::size_t kTimeBytes = 6;

/// The number in front of other text; -1: there is none.
std::int64_t leadingNumber(std::string_view text) {
    std::int64_t number = -1;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

std::int64_t bigEndian(std::string_view bytes) {
    std::int64_t number = 0;
    for (const char byte : bytes) {
        number = number << 8 | static_cast<unsigned char>(byte);
    }
    return number;
}

std::optional<Block> inZset(ReplyView reply) {
    const std::int64_t score = reply[1].numberOr(0);
    const std::string_view length = blockLengthIn(reply[0].text());
    return score < 0 && !length.empty() ? std::optional(Block{-score, leadingNumber(length)}) : std::nullopt;
}

std::optional<Block> inString(std::string_view bytes) {
    const bool isBlocked = bytes.starts_with(kCompactBlockedFormat) || bytes.starts_with(kCompactBlockedRunsFormat);
    if (bytes.size() < 1 + 2 * kTimeBytes || !isBlocked) {
        return std::nullopt;
    }
    return Block{bigEndian(bytes.substr(1, kTimeBytes)), bigEndian(bytes.substr(1 + kTimeBytes, kTimeBytes))};
}

std::optional<Block> inHash(ReplyView fields) {
    const std::optional<std::int64_t> until = fields.field(kBlockedUntil).number();
    return until ? std::optional(Block{*until, fields.field(kBlockedFor).numberOr(-1)}) : std::nullopt;
}

}  // namespace

std::optional<Command> blockQuery(std::string_view type, const std::string& key) {
    if (type == "zset") {
        return Command{"ZRANGE", key, "0", "0", "WITHSCORES"};
    }
    if (type == "string") {
        return Command{"GETRANGE", key, "0", std::to_string(2 * kTimeBytes)};
    }
    if (type == "hash") {
        return Command{"HGETALL", key};
    }
    return std::nullopt;
}

std::optional<Block> blockIn(std::string_view type, ReplyView reply) {
    if (reply.isError() || reply.isNil()) {
        return std::nullopt;
    }
    return type == "zset" ? inZset(reply) : type == "string" ? inString(reply.text()) : inHash(reply);
}

std::string memoryKey(const std::string& key) {
    return key + std::string(kBlocksSuffix);
}

Command memoryQuery(const std::string& key) {
    return {"MGET", memoryKey(key)};
}

std::optional<RememberedBlock> rememberedIn(ReplyView reply) {
    if (!reply.isArray() || reply[0].isNil()) {
        return std::nullopt;
    }
    std::string_view rest = reply[0].text();
    std::array<std::int64_t, 3> numbers{};
    for (std::int64_t& number : numbers) {
        number = leadingNumber(rest);
        if (number < 0) {
            return std::nullopt;
        }
        rest.remove_prefix(std::min(rest.find(' '), rest.size()));
        rest.remove_prefix(rest.empty() ? 0 : 1);
    }
    return RememberedBlock{{numbers[0], numbers[1]}, numbers[2]};
}

}  // namespace sliding_log::tool
