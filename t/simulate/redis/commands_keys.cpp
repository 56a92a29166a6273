// Commands of keys of any type.
#include <algorithm>

#include "commands.hpp"

namespace simulate {

namespace {

void del(Execution& execution, Words words) {
    std::int64_t removed = 0;
    for (const std::string_view name : words.subspan(1)) {
        if (execution.find(name) != nullptr) {
            execution.remove(name);
            removed++;
        }
    }
    appendInteger(execution.reply(), removed);
}

void exists(Execution& execution, Words words) {
    appendInteger(execution.reply(), std::ranges::count_if(words.subspan(1), [&](std::string_view name) {
                      return execution.find(name) != nullptr;
                  }));
}

std::string_view typeOf(const Keyspace::Key* key) {
    constexpr std::string_view kNames[] = {"string", "zset", "hash", "list"};
    return key == nullptr ? "none" : kNames[key->value.index()];
}

void type(Execution& execution, Words words) {
    appendStatus(execution.reply(), typeOf(execution.find(words[1])));
}

void rpush(Execution& execution, Words words) {
    bool isWrong = false;
    auto* list = execution.valueOf<List>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    if (list == nullptr) {
        list = &std::get<List>(execution.keys().add(words[1], List()).value);
    }
    list->insert(list->end(), words.begin() + 2, words.end());
    execution.changed(words[1], words.size() - 2);
    appendInteger(execution.reply(), static_cast<std::int64_t>(list->size()));
}

void copy(Execution& execution, Words words) {
    const bool replaces = words.size() == 4 && isWord(words[3], "REPLACE");
    if (words.size() > 3 && !replaces) {
        return execution.error(kSyntax);
    }
    const Keyspace::Key* key = execution.find(words[1]);
    if (key == nullptr || (!replaces && execution.find(words[2]) != nullptr)) {
        return appendInteger(execution.reply(), 0);
    }
    Value value = key->value;
    const std::int64_t expiry = key->expiry;
    execution.keys().remove(words[2]);
    execution.keys().add(words[2], std::move(value));
    execution.changed(words[2]);
    execution.setExpiry(words[2], expiry);
    appendInteger(execution.reply(), 1);
}

enum class Ttl { Ms, Seconds, Time };

template <Ttl kind>
void ttl(Execution& execution, Words words) {
    const Keyspace::Key* key = execution.find(words[1]);
    std::int64_t told = -2;
    if (key != nullptr) {
        told = key->expiry;
        if (told != Keyspace::kNoExpiry && kind != Ttl::Time) {
            told = std::max<std::int64_t>(told - execution.nowMs(), 0);
            told = kind == Ttl::Seconds ? (told + 500) / 1000 : told;
        }
    }
    appendInteger(execution.reply(), told);
}

struct ExpireOptions {
    bool isNew = false;
    bool isOld = false;
    bool isGreater = false;
    bool isLess = false;
};

bool readExpireOptions(Execution& execution, Words words, ExpireOptions& options) {
    for (std::size_t i = 3; i < words.size(); i++) {
        bool* const option = isWord(words[i], "NX")   ? &options.isNew
                             : isWord(words[i], "XX") ? &options.isOld
                             : isWord(words[i], "GT") ? &options.isGreater
                             : isWord(words[i], "LT") ? &options.isLess
                                                      : nullptr;
        if (option == nullptr) {
            execution.error("ERR Unsupported option " + std::string(words[i]));
            return false;
        }
        *option = true;
    }
    if (options.isNew && (options.isOld || options.isGreater || options.isLess)) {
        execution.error("ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (options.isGreater && options.isLess) {
        execution.error("ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

template <bool isSeconds, bool isAbsolute>
void expire(Execution& execution, Words words) {
    ExpireOptions options;
    std::int64_t when = 0;
    if (!readExpireOptions(execution, words, options)) {
        return;
    }
    if (!integerIn(words[2], when)) {
        return execution.error(kNotInteger);
    }
    const std::int64_t basis = isAbsolute ? 0 : execution.nowMs();
    if ((isSeconds && (when > INT64_MAX / 1000 || when < INT64_MIN / 1000)) ||
        __builtin_add_overflow(isSeconds ? when * 1000 : when, basis, &when)) {
        return execution.error("ERR invalid expire time in '" + lowerCase(words[0]) + "' command");
    }
    const Keyspace::Key* key = execution.find(words[1]);
    const std::int64_t present = key == nullptr ? 0 : key->expiry;
    const bool isEternal = present == Keyspace::kNoExpiry;
    if (key == nullptr || (options.isNew && !isEternal) || (options.isOld && isEternal) ||
        (options.isGreater && (isEternal || when <= present)) || (options.isLess && !isEternal && when >= present)) {
        return appendInteger(execution.reply(), 0);
    }
    if (when <= execution.nowMs() && !execution.obeysMaster()) {
        execution.remove(words[1]);
        execution.propagate({"DEL", words[1]});
    } else {
        execution.setExpiry(words[1], when);
        execution.propagate({"PEXPIREAT", words[1], std::to_string(when)});
    }
    appendInteger(execution.reply(), 1);
}

void persist(Execution& execution, Words words) {
    const Keyspace::Key* key = execution.find(words[1]);
    const bool isEternal = key == nullptr || key->expiry == Keyspace::kNoExpiry;
    if (!isEternal) {
        execution.setExpiry(words[1], Keyspace::kNoExpiry);
    }
    appendInteger(execution.reply(), isEternal ? 0 : 1);
}

/// As KEYS of Redis; without classes of characters.
bool matches(std::string_view pattern, std::string_view text) {
    while (!pattern.empty()) {
        if (pattern.front() == '*') {
            pattern.remove_prefix(1);
            for (std::size_t i = 0; i <= text.size(); i++) {
                if (matches(pattern, text.substr(i))) {
                    return true;
                }
            }
            return false;
        }
        const bool isEscaped = pattern.front() == '\\' && pattern.size() > 1;
        pattern.remove_prefix(isEscaped ? 1 : 0);
        if (text.empty() || (pattern.front() != text.front() && (isEscaped || pattern.front() != '?'))) {
            return false;
        }
        pattern.remove_prefix(1);
        text.remove_prefix(1);
    }
    return text.empty();
}

/// All keys at once.
void scan(Execution& execution, Words words) {
    std::string_view pattern = "*";
    for (std::size_t i = 2; i < words.size(); i += 2) {
        if (i + 1 == words.size() || !(isWord(words[i], "MATCH") || isWord(words[i], "COUNT"))) {
            return execution.error(kSyntax);
        }
        pattern = isWord(words[i], "MATCH") ? words[i + 1] : pattern;
    }
    std::vector<std::string_view> found;
    for (const auto& [name, key] : execution.keys().keys()) {
        const bool hasExpired = key.expiry != Keyspace::kNoExpiry && key.expiry < execution.nowMs();
        if (!hasExpired && matches(pattern, name)) {
            found.push_back(name);
        }
    }
    appendArray(execution.reply(), 2);
    appendBulk(execution.reply(), "0");
    appendArray(execution.reply(), found.size());
    for (const std::string_view name : found) {
        appendBulk(execution.reply(), name);
    }
}

void dbsize(Execution& execution, Words) {
    appendInteger(execution.reply(), static_cast<std::int64_t>(execution.keys().size()));
}

void memory(Execution& execution, Words words) {
    if (!isWord(words[1], "USAGE") || words.size() < 3) {
        return execution.error(kSyntax);
    }
    const Keyspace::Key* key = execution.find(words[2]);
    if (key == nullptr) {
        return appendNil(execution.reply());
    }
    appendInteger(execution.reply(), static_cast<std::int64_t>(Keyspace::bytesOf(words[2], *key)));
}

void flush(Execution& execution, Words words) {
    execution.keys().clear();
    execution.propagate({words[0]});
    appendStatus(execution.reply(), "OK");
}

constexpr CommandRow kKeyCommands[] = {
    {"copy", copy, -3, kWrites | kGrows, 1, 2},
    {"dbsize", dbsize, 1, 0, 0, 0},
    {"del", del, -2, kWrites, 1, -1},
    {"exists", exists, -2, 0, 1, -1},
    {"expire", expire<true, false>, -3, kWrites, 1, 1},
    {"expireat", expire<true, true>, -3, kWrites, 1, 1},
    {"flushall", flush, -1, kWrites, 0, 0},
    {"flushdb", flush, -1, kWrites, 0, 0},
    {"memory", memory, -2, 0, 2, 2},
    {"persist", persist, 2, kWrites, 1, 1},
    {"pexpire", expire<false, false>, -3, kWrites, 1, 1},
    {"pexpireat", expire<false, true>, -3, kWrites, 1, 1},
    {"pexpiretime", ttl<Ttl::Time>, 2, 0, 1, 1},
    {"pttl", ttl<Ttl::Ms>, 2, 0, 1, 1},
    {"rpush", rpush, -3, kWrites | kGrows, 1, 1},
    {"scan", scan, -2, 0, 0, 0},
    {"ttl", ttl<Ttl::Seconds>, 2, 0, 1, 1},
    {"type", type, 2, 0, 1, 1},
    {"unlink", del, -2, kWrites, 1, -1},
};

}  // namespace

std::span<const CommandRow> keyCommands() {
    return kKeyCommands;
}

}  // namespace simulate
