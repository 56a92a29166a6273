// Commands of strings.
#include <algorithm>

#include "commands.hpp"

namespace simulate {

namespace {

void get(Execution& execution, Words words) {
    bool isWrong = false;
    const auto* text = execution.valueOf<std::string>(words[1], isWrong);
    if (text != nullptr) {
        appendBulk(execution.reply(), *text);
    } else if (!isWrong) {
        appendNil(execution.reply());
    }
}

void mget(Execution& execution, Words words) {
    appendArray(execution.reply(), words.size() - 1);
    for (const std::string_view name : words.subspan(1)) {
        Keyspace::Key* key = execution.find(name);
        const auto* text = key == nullptr ? nullptr : std::get_if<std::string>(&key->value);
        if (text != nullptr) {
            appendBulk(execution.reply(), *text);
        } else {
            appendNil(execution.reply());
        }
    }
}

struct SetOptions {
    bool isNew = false;
    bool isOld = false;
    bool keepsTtl = false;
    std::string_view unit;  // of the expiry; none: empty
    std::string_view expiry;
};

bool readSetOptions(Words words, SetOptions& options) {
    for (std::size_t i = 3; i < words.size(); i++) {
        const bool hasNext = i + 1 < words.size();
        const auto at = [&](std::string_view word) { return isWord(words[i], word); };
        if (at("NX") && !options.isOld) {
            options.isNew = true;
        } else if (at("XX") && !options.isNew) {
            options.isOld = true;
        } else if (at("KEEPTTL") && options.unit.empty()) {
            options.keepsTtl = true;
        } else if ((at("EX") || at("PX") || at("EXAT") || at("PXAT")) && options.unit.empty() && !options.keepsTtl &&
                   hasNext) {
            options.unit = words[i];
            options.expiry = words[++i];
        } else {
            return false;
        }
    }
    return true;
}

/// The time in ms; false after an error.
bool expiryOf(Execution& execution, const SetOptions& options, std::int64_t& ms) {
    if (!integerIn(options.expiry, ms)) {
        execution.error(kNotInteger);
        return false;
    }
    constexpr std::int64_t kMost = INT64_MAX;
    const bool isSeconds = isWord(options.unit, "EX") || isWord(options.unit, "EXAT");
    const bool isAbsolute = options.unit.size() == 4;
    const bool isOut = ms <= 0 || (isSeconds && ms > kMost / 1000) ||
                       (!isAbsolute && (isSeconds ? ms * 1000 : ms) > kMost - execution.nowMs());
    if (isOut) {
        execution.error("ERR invalid expire time in 'set' command");
        return false;
    }
    ms = (isSeconds ? ms * 1000 : ms) + (isAbsolute ? 0 : execution.nowMs());
    return true;
}

void set(Execution& execution, Words words) {
    SetOptions options;
    std::int64_t expiry = Keyspace::kNoExpiry;
    if (!readSetOptions(words, options)) {
        return execution.error(kSyntax);
    }
    if (!options.unit.empty() && !expiryOf(execution, options, expiry)) {
        return;
    }
    const std::string_view name = words[1];
    Keyspace::Key* key = execution.find(name);
    if ((options.isNew && key != nullptr) || (options.isOld && key == nullptr)) {
        return appendNil(execution.reply());
    }
    if (key == nullptr) {
        key = &execution.keys().add(name, std::string(words[2]));
    } else if (auto* text = std::get_if<std::string>(&key->value)) {
        text->assign(words[2]);
    } else {
        key->value = std::string(words[2]);
    }
    execution.changed(name);
    if (expiry != Keyspace::kNoExpiry) {
        execution.setExpiry(name, expiry);
        execution.propagate({"SET", name, words[2], "PXAT", std::to_string(expiry)});
    } else if (!options.keepsTtl && key->expiry != Keyspace::kNoExpiry) {
        execution.setExpiry(name, Keyspace::kNoExpiry);
    }
    appendStatus(execution.reply(), "OK");
}

void setrange(Execution& execution, Words words) {
    constexpr std::int64_t kLongest = 512LL << 20;
    const std::string_view name = words[1];
    const std::string_view bytes = words[3];
    std::int64_t offset = 0;
    if (!integerIn(words[2], offset)) {
        return execution.error(kNotInteger);
    }
    if (offset < 0) {
        return execution.error("ERR offset is out of range");
    }
    bool isWrong = false;
    auto* text = execution.valueOf<std::string>(name, isWrong);
    if (isWrong) {
        return;
    }
    if (bytes.empty()) {
        return appendInteger(execution.reply(), text == nullptr ? 0 : static_cast<std::int64_t>(text->size()));
    }
    if (offset + static_cast<std::int64_t>(bytes.size()) > kLongest) {
        return execution.error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    }
    if (text == nullptr) {
        text = &std::get<std::string>(execution.keys().add(name, std::string()).value);
    }
    const auto from = static_cast<std::size_t>(offset);
    text->resize(std::max(text->size(), from + bytes.size()));
    bytes.copy(text->data() + from, bytes.size());
    execution.changed(name);
    appendInteger(execution.reply(), static_cast<std::int64_t>(text->size()));
}

void getrange(Execution& execution, Words words) {
    constexpr std::int64_t kByteNs = 1;
    std::int64_t from = 0;
    std::int64_t to = 0;
    if (!integerIn(words[2], from) || !integerIn(words[3], to)) {
        return execution.error(kNotInteger);
    }
    bool isWrong = false;
    const auto* text = execution.valueOf<std::string>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    const auto size = text == nullptr ? 0 : static_cast<std::int64_t>(text->size());
    const bool isNone = from < 0 && to < 0 && from > to;
    from = std::max<std::int64_t>(from < 0 ? from + size : from, 0);
    to = std::min(std::max<std::int64_t>(to < 0 ? to + size : to, 0), size - 1);
    if (isNone || from > to || size == 0) {
        return appendBulk(execution.reply(), "");
    }
    execution.works(kByteNs * (to - from + 1));
    appendBulk(execution.reply(),
               std::string_view(*text).substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from + 1)));
}

void strlen(Execution& execution, Words words) {
    bool isWrong = false;
    const auto* text = execution.valueOf<std::string>(words[1], isWrong);
    if (!isWrong) {
        appendInteger(execution.reply(), text == nullptr ? 0 : static_cast<std::int64_t>(text->size()));
    }
}

constexpr CommandRow kStringCommands[] = {
    {"get", get, 2, 0, 1, 1},
    {"getrange", getrange, 4, 0, 1, 1},
    {"mget", mget, -2, 0, 1, -1},
    {"set", set, -3, kWrites | kGrows, 1, 1},
    {"setrange", setrange, 4, kWrites | kGrows, 1, 1},
    {"strlen", strlen, 2, 0, 1, 1},
};

}  // namespace

std::span<const CommandRow> stringCommands() {
    return kStringCommands;
}

}  // namespace simulate
