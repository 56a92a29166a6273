// Commands of ZSETs.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "commands.hpp"

namespace simulate {

namespace {

constexpr std::int64_t kSearchNs = 150;
constexpr std::int64_t kToldNs = 100;

struct AddOptions {
    bool isNew = false;
    bool isOld = false;
    bool isGreater = false;
    bool isLess = false;
    bool countsChanges = false;
    bool isIncrement = false;
    std::size_t next = 2;  // the first score
};

AddOptions readAddOptions(Words words) {
    AddOptions options;
    for (; options.next < words.size(); options.next++) {
        const std::string_view word = words[options.next];
        bool* const option = isWord(word, "NX")     ? &options.isNew
                             : isWord(word, "XX")   ? &options.isOld
                             : isWord(word, "GT")   ? &options.isGreater
                             : isWord(word, "LT")   ? &options.isLess
                             : isWord(word, "CH")   ? &options.countsChanges
                             : isWord(word, "INCR") ? &options.isIncrement
                                                    : nullptr;
        if (option == nullptr) {
            break;
        }
        *option = true;
    }
    return options;
}

const char* refusalOf(const AddOptions& options, std::size_t words) {
    const std::size_t left = words - options.next;
    if (left % 2 != 0 || left == 0) {
        return "ERR syntax error";
    }
    if (options.isNew && options.isOld) {
        return "ERR XX and NX options at the same time are not compatible";
    }
    if ((options.isGreater && options.isNew) || (options.isLess && options.isNew) ||
        (options.isGreater && options.isLess)) {
        return "ERR GT, LT, and/or NX options at the same time are not compatible";
    }
    if (options.isIncrement && left > 2) {
        return "ERR INCR option supports a single increment-element pair";
    }
    return nullptr;
}

void zadd(Execution& execution, Words words) {
    const AddOptions options = readAddOptions(words);
    if (const char* refusal = refusalOf(options, words.size()); refusal != nullptr) {
        return execution.error(refusal);
    }
    std::vector<double> scores;
    for (std::size_t i = options.next; i < words.size(); i += 2) {
        if (!doubleIn(words[i], scores.emplace_back())) {
            return execution.error("ERR value is not a valid float");
        }
    }
    bool isWrong = false;
    auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    std::size_t added = 0;
    std::size_t updated = 0;
    bool isProcessed = false;
    double result = 0;
    const bool mayAdd = zset != nullptr || !options.isOld;
    if (zset == nullptr && mayAdd) {
        zset = &std::get<Zset>(execution.keys().add(words[1], Zset()).value);
    }
    for (std::size_t i = 0; mayAdd && i < scores.size(); i++) {
        const std::string member(words[options.next + 2 * i + 1]);
        double score = scores[i];
        const std::optional<double> present = zset->scoreOf(member);
        execution.works(kSearchNs);
        if (present ? options.isNew : options.isOld) {
            continue;
        }
        if (present && options.isIncrement) {
            score += *present;
            if (std::isnan(score)) {
                return execution.error("ERR resulting score is not a number (NaN)");
            }
        }
        if (present && ((options.isLess && score >= *present) || (options.isGreater && score <= *present))) {
            continue;
        }
        isProcessed = true;
        result = score;
        if (!present) {
            added++;
        } else if (*present == score) {
            continue;
        } else {
            updated++;
        }
        zset->set(member, score);
    }
    if (added + updated > 0) {
        execution.changed(words[1], added + updated);
    } else if (mayAdd && zset->size() == 0) {
        execution.keys().remove(words[1]);
    }
    if (!options.isIncrement) {
        appendInteger(execution.reply(), static_cast<std::int64_t>(options.countsChanges ? added + updated : added));
    } else if (isProcessed) {
        appendScore(execution.reply(), result);
    } else {
        appendNil(execution.reply());
    }
}

void zrem(Execution& execution, Words words) {
    bool isWrong = false;
    auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    std::size_t removed = 0;
    for (std::size_t i = 2; zset != nullptr && i < words.size(); i++) {
        removed += zset->remove(std::string(words[i])) ? 1 : 0;
        execution.works(kSearchNs);
    }
    if (removed > 0) {
        execution.changed(words[1], removed);
    }
    appendInteger(execution.reply(), static_cast<std::int64_t>(removed));
}

void zcard(Execution& execution, Words words) {
    bool isWrong = false;
    const auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (!isWrong) {
        appendInteger(execution.reply(), zset == nullptr ? 0 : static_cast<std::int64_t>(zset->size()));
    }
}

void zscore(Execution& execution, Words words) {
    bool isWrong = false;
    const auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    const std::optional<double> score = zset == nullptr ? std::nullopt : zset->scoreOf(std::string(words[2]));
    if (score) {
        appendScore(execution.reply(), *score);
    } else {
        appendNil(execution.reply());
    }
}

/// Ranks from 0 on, the second one behind the last.
struct Ranks {
    std::size_t from = 0;
    std::size_t to = 0;
};

/// What a command means by its first and last rank.
Ranks ranksOf(std::int64_t first, std::int64_t last, std::size_t count) {
    const auto size = static_cast<std::int64_t>(count);
    first = std::max<std::int64_t>(first < 0 ? first + size : first, 0);
    last = std::min(last < 0 ? last + size : last, size - 1);
    if (first > last || first >= size) {
        return {};
    }
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(last + 1)};
}

struct Bound {
    double score = 0;
    bool isExclusive = false;
};

bool boundIn(std::string_view text, Bound& bound) {
    bound.isExclusive = text.starts_with('(');
    const std::string copy(text.substr(bound.isExclusive ? 1 : 0));
    char* end = nullptr;
    bound.score = std::strtod(copy.c_str(), &end);
    return *end == '\0' && !std::isnan(bound.score);
}

Ranks ranksOf(const Bound& least, const Bound& most, const Zset& zset) {
    const std::size_t from = zset.rankOf(least.score, least.isExclusive);
    const std::size_t to = zset.rankOf(most.score, !most.isExclusive);
    return from < to ? Ranks{from, to} : Ranks{};
}

void tell(Execution& execution, const Zset* zset, const Ranks& ranks, bool isReverse, bool hasScores) {
    const std::size_t count = ranks.to - ranks.from;
    appendArray(execution.reply(), hasScores ? 2 * count : count);
    execution.works(kSearchNs + kToldNs * static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; i++) {
        const Zset::Entry& entry = zset->at(isReverse ? ranks.to - 1 - i : ranks.from + i);
        appendBulk(execution.reply(), entry.member);
        if (hasScores) {
            appendScore(execution.reply(), entry.score);
        }
    }
}

struct RangeOptions {
    bool isByScore = false;
    bool isReverse = false;
    bool hasScores = false;
    bool hasLimit = false;
    std::int64_t skipped = 0;
    std::int64_t most = -1;
};

bool readRangeOptions(Execution& execution, Words words, RangeOptions& options, bool isZrange) {
    for (std::size_t i = 4; i < words.size(); i++) {
        if (isWord(words[i], "WITHSCORES")) {
            options.hasScores = true;
        } else if (isWord(words[i], "LIMIT") && i + 2 < words.size()) {
            if (!integerIn(words[i + 1], options.skipped) || !integerIn(words[i + 2], options.most)) {
                execution.error(kNotInteger);
                return false;
            }
            options.hasLimit = true;
            i += 2;
        } else if (isZrange && isWord(words[i], "BYSCORE")) {
            options.isByScore = true;
        } else if (isZrange && isWord(words[i], "REV")) {
            options.isReverse = true;
        } else {
            execution.error(kSyntax);
            return false;
        }
    }
    if (options.hasLimit && !options.isByScore) {
        execution.error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
        return false;
    }
    return true;
}

void tellByScore(Execution& execution, Words words, const RangeOptions& options) {
    Bound least;
    Bound most;
    if (!boundIn(words[options.isReverse ? 3 : 2], least) || !boundIn(words[options.isReverse ? 2 : 3], most)) {
        return execution.error("ERR min or max is not a float");
    }
    bool isWrong = false;
    const auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    Ranks ranks = zset == nullptr ? Ranks() : ranksOf(least, most, *zset);
    const std::size_t count = ranks.to - ranks.from;
    const std::size_t skipped =
        options.skipped < 0 ? count : std::min(static_cast<std::size_t>(options.skipped), count);
    const std::size_t told =
        options.most < 0 ? count - skipped : std::min(static_cast<std::size_t>(options.most), count - skipped);
    ranks = options.isReverse ? Ranks{ranks.to - skipped - told, ranks.to - skipped}
                              : Ranks{ranks.from + skipped, ranks.from + skipped + told};
    tell(execution, zset, ranks, options.isReverse, options.hasScores);
}

void zrange(Execution& execution, Words words) {
    RangeOptions options;
    if (!readRangeOptions(execution, words, options, true)) {
        return;
    }
    if (options.isByScore) {
        return tellByScore(execution, words, options);
    }
    std::int64_t first = 0;
    std::int64_t last = 0;
    if (!integerIn(words[2], first) || !integerIn(words[3], last)) {
        return execution.error(kNotInteger);
    }
    bool isWrong = false;
    const auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (isWrong) {
        return;
    }
    Ranks ranks = ranksOf(first, last, zset == nullptr ? 0 : zset->size());
    if (options.isReverse && zset != nullptr) {
        ranks = ranks.from == ranks.to ? ranks : Ranks{zset->size() - ranks.to, zset->size() - ranks.from};
    }
    tell(execution, zset, ranks, options.isReverse, options.hasScores);
}

void zrangebyscore(Execution& execution, Words words) {
    RangeOptions options{.isByScore = true};
    if (readRangeOptions(execution, words, options, false)) {
        tellByScore(execution, words, options);
    }
}

void zcount(Execution& execution, Words words) {
    Bound least;
    Bound most;
    if (!boundIn(words[2], least) || !boundIn(words[3], most)) {
        return execution.error("ERR min or max is not a float");
    }
    bool isWrong = false;
    const auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (!isWrong) {
        const Ranks ranks = zset == nullptr ? Ranks() : ranksOf(least, most, *zset);
        appendInteger(execution.reply(), static_cast<std::int64_t>(ranks.to - ranks.from));
    }
}

void removeRanks(Execution& execution, std::string_view name, Zset* zset, const Ranks& ranks) {
    const std::size_t removed = ranks.to - ranks.from;
    execution.works(kSearchNs);
    if (removed > 0) {
        zset->removeRanks(ranks.from, ranks.to);
        execution.changed(name, removed);
    }
    appendInteger(execution.reply(), static_cast<std::int64_t>(removed));
}

void zremrangebyrank(Execution& execution, Words words) {
    std::int64_t first = 0;
    std::int64_t last = 0;
    if (!integerIn(words[2], first) || !integerIn(words[3], last)) {
        return execution.error(kNotInteger);
    }
    bool isWrong = false;
    auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (!isWrong) {
        removeRanks(execution, words[1], zset, ranksOf(first, last, zset == nullptr ? 0 : zset->size()));
    }
}

void zremrangebyscore(Execution& execution, Words words) {
    Bound least;
    Bound most;
    if (!boundIn(words[2], least) || !boundIn(words[3], most)) {
        return execution.error("ERR min or max is not a float");
    }
    bool isWrong = false;
    auto* zset = execution.valueOf<Zset>(words[1], isWrong);
    if (!isWrong) {
        removeRanks(execution, words[1], zset, zset == nullptr ? Ranks() : ranksOf(least, most, *zset));
    }
}

constexpr CommandRow kZsetCommands[] = {
    {"zadd", zadd, -4, kWrites | kGrows, 1, 1},
    {"zcard", zcard, 2, 0, 1, 1},
    {"zcount", zcount, 4, 0, 1, 1},
    {"zrange", zrange, -4, 0, 1, 1},
    {"zrangebyscore", zrangebyscore, -4, 0, 1, 1},
    {"zrem", zrem, -3, kWrites, 1, 1},
    {"zremrangebyrank", zremrangebyrank, 4, kWrites, 1, 1},
    {"zremrangebyscore", zremrangebyscore, 4, kWrites, 1, 1},
    {"zscore", zscore, 3, 0, 1, 1},
};

}  // namespace

std::span<const CommandRow> zsetCommands() {
    return kZsetCommands;
}

}  // namespace simulate
