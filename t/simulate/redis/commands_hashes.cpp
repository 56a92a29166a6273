// Commands of HASHes.
#include "commands.hpp"

namespace simulate {

namespace {

void hset(Execution& execution, Words words) {
    if (words.size() % 2 != 0) {
        return execution.error("ERR wrong number of arguments for 'hset' command");
    }
    bool isWrong = false;
    auto* hash = execution.valueOf<Hash>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    if (hash == nullptr) {
        hash = &std::get<Hash>(execution.keys().add(words[1], Hash()).value);
    }
    std::int64_t added = 0;
    for (std::size_t i = 2; i < words.size(); i += 2) {
        added += hash->set(words[i], words[i + 1]) ? 1 : 0;
    }
    execution.changed(words[1], words.size() / 2 - 1);
    appendInteger(execution.reply(), added);
}

void hget(Execution& execution, Words words) {
    bool isWrong = false;
    const auto* hash = execution.valueOf<Hash>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    const std::string* value = hash == nullptr ? nullptr : hash->get(words[2]);
    if (value == nullptr) {
        appendNil(execution.reply());
    } else {
        appendBulk(execution.reply(), *value);
    }
}

void hgetall(Execution& execution, Words words) {
    constexpr std::int64_t kFieldNs = 100;
    bool isWrong = false;
    const auto* hash = execution.valueOf<Hash>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    appendArray(execution.reply(), hash == nullptr ? 0 : 2 * hash->size());
    if (hash != nullptr) {
        execution.works(kFieldNs * static_cast<std::int64_t>(hash->size()));
        for (const auto& [field, value] : hash->fields()) {
            appendBulk(execution.reply(), field);
            appendBulk(execution.reply(), value);
        }
    }
}

void hdel(Execution& execution, Words words) {
    bool isWrong = false;
    auto* hash = execution.valueOf<Hash>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    std::size_t removed = 0;
    for (std::size_t i = 2; hash != nullptr && i < words.size(); i++) {
        removed += hash->remove(words[i]) ? 1 : 0;
    }
    if (removed > 0) {
        execution.changed(words[1], removed);
    }
    appendInteger(execution.reply(), static_cast<std::int64_t>(removed));
}

void hincrby(Execution& execution, Words words) {
    std::int64_t more = 0;
    if (!integerIn(words[3], more)) {
        return execution.error(kNotInteger);
    }
    bool isWrong = false;
    auto* hash = execution.valueOf<Hash>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    std::int64_t number = 0;
    const std::string* value = hash == nullptr ? nullptr : hash->get(words[2]);
    if (value != nullptr && !integerIn(*value, number)) {
        return execution.error("ERR hash value is not an integer");
    }
    if (__builtin_add_overflow(number, more, &number)) {
        return execution.error("ERR increment or decrement would overflow");
    }
    if (hash == nullptr) {
        hash = &std::get<Hash>(execution.keys().add(words[1], Hash()).value);
    }
    hash->set(words[2], std::to_string(number));
    execution.changed(words[1]);
    appendInteger(execution.reply(), number);
}

void hlen(Execution& execution, Words words) {
    bool isWrong = false;
    const auto* hash = execution.valueOf<Hash>(words[1], isWrong);
    if (!isWrong) {
        appendInteger(execution.reply(), hash == nullptr ? 0 : static_cast<std::int64_t>(hash->size()));
    }
}

constexpr CommandRow kHashCommands[] = {
    {"hdel", hdel, -3, kWrites, 1, 1}, {"hget", hget, 3, 0, 1, 1},
    {"hgetall", hgetall, 2, 0, 1, 1},  {"hincrby", hincrby, 4, kWrites | kGrows, 1, 1},
    {"hlen", hlen, 2, 0, 1, 1},        {"hset", hset, -4, kWrites | kGrows, 1, 1},
};

}  // namespace

std::span<const CommandRow> hashCommands() {
    return kHashCommands;
}

}  // namespace simulate
