#include "commands.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace simulate {

namespace {

constexpr std::int64_t kEntryNs = 250;  // an entry more or less
constexpr std::int64_t kFreedNs = 100;

const std::vector<CommandRow>& allCommands() {
    static const std::vector<CommandRow> all = [] {
        std::vector<CommandRow> rows;
        for (const auto& part : {stringCommands(), keyCommands(), zsetCommands(), hashCommands(), connectionCommands(),
                                 serverCommands(), scriptCommands()}) {
            rows.insert(rows.end(), part.begin(), part.end());
        }
        std::ranges::sort(rows, {}, &CommandRow::name);
        return rows;
    }();
    return all;
}

}  // namespace

const CommandRow* commandNamed(std::string_view name) {
    constexpr std::size_t kLongest = 32;
    if (name.size() > kLongest) {
        return nullptr;
    }
    char lower[kLongest];
    std::ranges::transform(name, lower, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const std::string_view wanted(lower, name.size());
    const auto& all = allCommands();
    const auto found = std::ranges::lower_bound(all, wanted, {}, &CommandRow::name);
    return found != all.end() && found->name == wanted ? &*found : nullptr;
}

std::vector<std::string_view> keysOf(const CommandRow& row, Words words) {
    std::vector<std::string_view> keys;
    if ((row.flags & kRunsScript) != 0 && words.size() > 2) {
        const bool isShort = row.name.starts_with("sliding_log.") && words[1].find(' ') != std::string_view::npos;
        std::int64_t count = 0;
        if (isShort) {
            keys.push_back(words[2]);
        } else if (integerIn(words[2], count) && count > 0 && static_cast<std::size_t>(count) <= words.size() - 3) {
            keys.assign(words.begin() + 3, words.begin() + 3 + count);
        }
    } else if (row.firstKey > 0) {
        const int last = row.lastKey < 0 ? static_cast<int>(words.size()) + row.lastKey : row.lastKey;
        for (int i = row.firstKey; i <= last && i < static_cast<int>(words.size()); i++) {
            keys.push_back(words[static_cast<std::size_t>(i)]);
        }
    }
    return keys;
}

// ---- an execution

void Execution::run(const CommandRow& row, Words words) {
    isDirty_ = false;
    instead_.clear();
    row.run(*this, words);
    if (!instead_.empty()) {
        for (std::vector<std::string>& effect : instead_) {
            note(std::move(effect));
        }
        instead_.clear();
    } else if (isDirty_ && !isSilent_ && keepsEffects() && (row.flags & kRunsScript) == 0) {
        note(std::vector<std::string>(words.begin(), words.end()));
    }
    isDirty_ = false;
}

Keyspace::Key* Execution::find(std::string_view name) {
    Keyspace::Key* key = keys().find(name);
    if (key == nullptr || key->expiry == Keyspace::kNoExpiry || key->expiry >= nowMs() || obeysMaster_) {
        return key;
    }
    if (isMaster()) {
        const std::string copy(name);
        works(kFreedNs);  // another thread frees it: lazyfree-lazy-expire yes
        keys().remove(copy);
        note({"DEL", copy});
    }
    return nullptr;
}

void Execution::changed(std::string_view name, std::size_t entries) {
    isDirty_ = true;
    works(static_cast<std::int64_t>(entries) * kEntryNs);
    Keyspace::Key* key = keys().find(name);
    const auto* zset = std::get_if<Zset>(&key->value);
    const auto* hash = std::get_if<Hash>(&key->value);
    if ((zset != nullptr && zset->size() == 0) || (hash != nullptr && hash->size() == 0)) {
        keys().remove(name);
    } else {
        keys().changed(name, *key);
    }
}

void Execution::setExpiry(std::string_view name, std::int64_t ms) {
    isDirty_ = true;
    keys().setExpiry(name, ms);
}

void Execution::remove(std::string_view name) {
    isDirty_ = true;
    const Keyspace::Key* key = std::as_const(keys()).find(name);
    const auto* zset = key == nullptr ? nullptr : std::get_if<Zset>(&key->value);
    works(zset == nullptr ? kFreedNs : kFreedNs * static_cast<std::int64_t>(zset->size()));
    keys().remove(name);
}

void Execution::propagate(std::initializer_list<std::string_view> words) {
    if (keepsEffects()) {
        propagate(std::vector<std::string>(words.begin(), words.end()));
    }
}

void Execution::propagate(std::vector<std::string> words) {
    if (keepsEffects()) {
        instead_.push_back(std::move(words));
    }
}

void Execution::note(std::vector<std::string> words) {
    if (keepsEffects()) {
        effect_.commands.push_back(std::move(words));
    }
}

// ---- words as values

bool integerIn(std::string_view text, std::int64_t& number) {
    const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
    if (digits.empty() || (digits.front() == '0' && text.size() > 1)) {
        return false;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

bool doubleIn(std::string_view text, double& number) {
    const std::string copy(text);
    char* end = nullptr;
    errno = 0;
    number = std::strtod(copy.c_str(), &end);
    const bool isOut = errno == ERANGE && (std::isinf(number) || std::fpclassify(number) == FP_ZERO);
    return !copy.empty() && std::isspace(static_cast<unsigned char>(copy.front())) == 0 &&
           end == copy.c_str() + copy.size() && !isOut && !std::isnan(number);
}

bool isWord(std::string_view text, std::string_view upperCase) {
    return std::ranges::equal(text, upperCase,
                              [](char c, char upper) { return (c >= 'a' && c <= 'z' ? c - 32 : c) == upper; });
}

std::string lowerCase(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return lower;
}

std::string scoreText(double score) {
    constexpr double kExact = 1e15;
    if (std::isinf(score)) {
        return score > 0 ? "inf" : "-inf";
    }
    char text[40];
    if (score > -kExact && score < kExact && score == static_cast<double>(static_cast<std::int64_t>(score)) &&
        (score != 0 || !std::signbit(score))) {
        return {text, std::to_chars(text, text + sizeof(text), static_cast<std::int64_t>(score)).ptr};
    }
    return {text, static_cast<std::size_t>(std::snprintf(text, sizeof(text), "%.17g", score))};
}

void appendScore(std::string& out, double score) {
    appendBulk(out, scoreText(score));
}

}  // namespace simulate
