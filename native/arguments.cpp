#include "arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "redis.hpp"

namespace sliding_log::native {

namespace {

constexpr std::size_t kMostDigits = 15;  // exact as a double

/// A renewal has at most this many members of a log.
constexpr double kMostRenewed = 1000;

/// The settings of a short call. They are read once for successive calls with the same text.
struct ShortSettings {
    static constexpr std::size_t kLongest = 96;

    /// nullopt if the word is not the settings of a short call.
    static std::optional<ShortSettings> of(std::string_view word) {
        if (word.size() > kLongest || word.ends_with(' ')) {
            return std::nullopt;
        }
        ShortSettings read{.text = std::string(word)};
        const std::string_view name = next(word);
        const auto* row = std::ranges::find(kAlgorithms, name, &AlgorithmRow::name);
        if (row == kAlgorithms.end() || !hasShortCalls(*row)) {
            return std::nullopt;
        }
        read.algorithm = row->algorithm;
        Settings& settings = read.settings;
        const bool areRight = wholeNumberIn(next(word), settings.limit) && wholeNumberIn(next(word), settings.window) &&
                              wholeNumberIn(next(word), settings.ttl) && settings.window >= 1 && settings.ttl >= 1;
        const bool hasCost = !word.empty();
        const bool isCostRight = row->hasPlainCosts && wholeNumberIn(next(word), read.cost) && word.empty();
        return areRight && (!hasCost || isCostRight) ? std::optional(read) : std::nullopt;
    }

    std::string text;
    Algorithm algorithm = Algorithm::Log;
    double cost = 1;
    Settings settings{};

  private:
    /// The text before the next space. Both are removed from `text`.
    static std::string_view next(std::string_view& text) {
        const std::string_view first = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), first.size() + 1));
        return first;
    }
};

}  // namespace

bool wholeNumberIn(std::string_view text, double& number) {
    std::int64_t found = 0;
    const char* end = text.data() + text.size();
    if (text.empty() || text.size() > kMostDigits || text.front() == '-' ||
        std::from_chars(text.data(), end, found).ptr != end) {
        return false;
    }
    number = static_cast<double>(found);
    return true;
}

std::vector<double> timesIn(std::string_view times) {
    std::vector<double> numbers;
    for (;;) {
        const std::size_t end = std::min(times.find(','), times.size());
        wholeNumberIn(times.substr(0, end), numbers.emplace_back());
        if (end == times.size()) {
            return numbers;
        }
        times.remove_prefix(end + 1);
    }
}

std::string_view Arguments::text(std::size_t index) const {
    std::size_t length = 0;
    const char* text = api::StringPtrLen(words_[index], &length);
    return {text, length};
}

void Arguments::findKeys() {
    if (isWrittenShort()) {
        firstKey_ = kKeyOfShort;
        keys_ = 1;
        return;
    }
    double keys = 0;
    at_ = 2;
    const bool areThere = number(keys) && keys <= static_cast<double>(words_.size() - kFirstKey);
    keys_ = areThere ? static_cast<std::size_t>(keys) : 0;
}

const char* Arguments::read() {
    if (isWrittenShort()) {
        return readShort() ? nullptr : "ERR sliding_log.2: wrong arguments";
    }
    const auto* row = std::ranges::find(kAlgorithms, text(1), &AlgorithmRow::name);
    if (row == kAlgorithms.end()) {
        return "ERR sliding_log.2: no such algorithm";
    }
    algorithm_ = row->algorithm;
    at_ = 2;
    double keys = 0;
    if (!number(keys) || keys > static_cast<double>(words_.size() - kFirstKey)) {
        return "ERR sliding_log.2: wrong number of keys";
    }
    keys_ = static_cast<std::size_t>(keys);
    at_ = kFirstKey + keys_;
    error_ = "ERR sliding_log.2: wrong arguments";
    if (traitsOf(algorithm_).hasLeases && at_ < words_.size() && text(at_) == "renew") {
        at_++;
        return readRenewals() ? nullptr : error_;
    }
    if (readPlain() || readPlainTwo()) {
        return nullptr;
    }
    if (at_ < words_.size() && text(at_) == "take back") {
        isTakeBack_ = true;
        at_++;
    }
    if (at_ >= words_.size()) {
        return error_;
    }
    hasNow_ = !text(at_).empty();
    if (hasNow_ ? !number(now_) : (at_++, false)) {
        return error_;
    }
    std::size_t key = kFirstKey;
    while (key < kFirstKey + keys_) {
        if (!readBatch(key)) {
            return error_;
        }
    }
    const bool isWhole = at_ == words_.size() && (!isTakeBack_ || !batches_.empty());
    return isWhole ? nullptr : error_;
}

bool Arguments::readShort() {
    static ShortSettings latest;  // most calls have the same settings as the call before
    if (const std::string_view settings = text(1); settings != latest.text) {
        std::optional<ShortSettings> read = ShortSettings::of(settings);
        if (!read) {
            return false;
        }
        latest = std::move(*read);
    }
    algorithm_ = latest.algorithm;
    latest_ = latest.settings;
    if (latest.cost != 1) {
        plainCosts_.assign(1, latest.cost);
    }
    keys_ = 1;
    firstKey_ = kKeyOfShort;
    isPlain_ = true;
    return words_.size() == kKeyOfShort + (rowOf(algorithm_).namesEntries ? 2 : 1);
}

/// A plain call: one request for each of one or more logs, with the same limit, by this server's clock. With options,
/// and where only scripts have a shorter way, each is a batch.
bool Arguments::readPlain() {
    const AlgorithmRow& row = rowOf(algorithm_);
    std::size_t words = words_.size() - at_;
    double none = 0;
    const bool hasOptions = row.hasPlainOptions && words > 3 && !wholeNumberIn(text(words_.size() - 1), none);
    words -= hasOptions ? 1 : 0;
    const bool hasCosts = row.hasPlainCosts && words == keys_ + 3;
    const bool isTold = hasOptions || !takes(algorithm_, Parameter::Burst);
    if (row.plain.empty() || !isTold || keys_ == 0 || words != (row.namesEntries || hasCosts ? keys_ : 0) + 3) {
        return false;
    }
    const std::size_t begin = at_;
    if (row.namesEntries) {
        at_ += keys_;
    }
    if (hasCosts) {
        plainCosts_.resize(keys_);
    }
    if (!std::ranges::all_of(plainCosts_, [this](double& cost) { return number(cost); }) || !readPlainNumbers() ||
        (hasOptions && !readOptions(text(at_++)))) {
        latest_ = Settings();
        plainCosts_.clear();
        at_ = begin;
        return false;
    }
    isPlain_ = !hasOptions && hasShortCalls(row);
    for (std::size_t i = 0; !isPlain_ && i < keys_; i++) {
        leavePlain(i);
    }
    return true;
}

bool Arguments::readPlainNumbers() {
    return number(latest_.limit) && number(latest_.window) && number(latest_.ttl) && latest_.window >= 1 &&
           latest_.ttl >= 1;
}

/// A plain call of two limits: each request is a batch of two logs.
bool Arguments::readPlainTwo() {
    const AlgorithmRow& row = rowOf(algorithm_);
    const std::size_t requests = keys_ / 2;
    const std::size_t names = row.namesEntries ? requests : 0;
    const bool haveOptions = takes(algorithm_, Parameter::Burst);
    const std::size_t numbers = haveOptions ? 8 : 6;
    if (row.plain.empty() || requests == 0 || keys_ % 2 != 0 || words_.size() - at_ != names + numbers + 1 ||
        text(words_.size() - 1) != kPlainTwo) {
        return false;
    }
    const std::size_t begin = at_;
    std::array<Settings, 2> settings;
    at_ += names;
    for (Settings& each : settings) {
        latest_ = Settings();
        if (!readPlainNumbers() || (haveOptions && !readOptions(text(at_++)))) {
            latest_ = Settings();
            at_ = begin;
            return false;
        }
        each = latest_;
    }
    for (std::size_t i = 0; i < requests; i++) {
        batches_.push_back({.firstLog = logs_.size(), .logs = 2, .requests = 1, .names = begin + i});
        logs_.push_back({.key = key(2 * i), .settings = settings[0]});
        logs_.push_back({.key = key(2 * i + 1), .settings = settings[1]});
    }
    return true;
}

const AskedBatch& Arguments::leavePlain(std::size_t index) {
    AskedLog& log = logs_.emplace_back(AskedLog{.key = key(index), .settings = latest_});
    if (const double cost = plainCost(index); cost != 1) {
        const std::string& options = plainOptions_.emplace_front(wordOf(Option::Cost)).append(textOf(cost));
        log.settings.hasOptions = true;
        log.settings.cost = cost;
        log.settings.options = log.settings.options.empty() ? std::string_view(options) : log.settings.options;
    }
    return batches_.emplace_back(
        AskedBatch{.firstLog = logs_.size() - 1, .logs = 1, .requests = 1, .names = firstKey_ + keys_ + index});
}

bool Arguments::readRenewals() {
    hasNow_ = at_ < words_.size() && !text(at_).empty();
    if (hasNow_ ? !number(now_) : (at_++, false)) {
        return false;
    }
    for (std::size_t i = 0; i < keys_; i++) {
        double ttl = 0;
        double count = 0;
        if (!number(ttl) || !number(count) || ttl < 1 || count < 1 || count > kMostRenewed ||
            count > static_cast<double>(words_.size() - at_)) {
            return false;
        }
        const auto members = static_cast<std::size_t>(count);
        renewals_.push_back({.key = key(i), .ttl = ttl, .members = at_, .count = members});
        at_ += members;
    }
    return isRenewal() && at_ == words_.size();
}

bool Arguments::readBatch(std::size_t& key) {
    double logged = 0;
    double taken = 0;
    double logs = 0;
    double requests = 0;
    if ((isTakeBack_ && (!number(logged) || !number(taken))) || !number(logs) || !number(requests) || logs < 1 ||
        (isTakeBack_ && requests != 1)) {
        return false;
    }
    const std::size_t keysLeft = kFirstKey + keys_ - key;
    const std::size_t wordsLeft = words_.size() - at_;
    const double names = std::max(requests, 1.0);
    if (logs > static_cast<double>(keysLeft) || names > static_cast<double>(wordsLeft)) {
        return false;
    }
    const AskedBatch batch{.firstLog = logs_.size(),
                           .logs = static_cast<std::size_t>(logs),
                           .requests = static_cast<std::size_t>(requests),
                           .names = at_,
                           .loggedAt = logged,
                           .takenAt = taken};
    at_ += static_cast<std::size_t>(names);
    for (std::size_t i = 0; i < batch.logs; i++) {
        if (!readLog(key++, batch)) {
            return false;
        }
    }
    batches_.push_back(batch);
    return true;
}

bool Arguments::readLog(std::size_t key, const AskedBatch& batch) {
    if (at_ >= words_.size()) {
        return false;
    }
    if (text(at_).empty()) {
        at_++;
        if (!hasLatest_) {
            return false;
        }
    } else if (!readSettings()) {
        return false;
    }
    const std::size_t record = at_ + (latest_.named ? batch.requests : 0);
    logs_.push_back({.key = words_[key], .settings = latest_, .ids = at_, .record = record});
    at_ = record + (latest_.isTold ? 1 : 0);
    return at_ <= words_.size();
}

bool Arguments::readSettings() {
    latest_ = Settings();
    if (!number(latest_.limit) || !number(latest_.window) || !number(latest_.cap) || !number(latest_.ttl) ||
        latest_.window < 1 || latest_.ttl < 1 || at_ >= words_.size()) {
        return false;
    }
    hasLatest_ = true;
    return readOptions(text(at_++));
}

bool Arguments::readOptions(std::string_view text) {
    latest_.options = text;
    latest_.hasOptions = !text.empty();
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        const auto* known = std::ranges::find_if(kOptions, [&](const OptionRow& row) { return row.isIn(word); });
        if (known == kOptions.end()) {
            error_ = "ERR sliding_log.2: unknown option";
            return false;
        }
        if (!readOption(known->option, word.substr(std::min(known->word.size(), word.size())))) {
            return false;
        }
    }
    const bool hasBurst = !takes(algorithm_, Parameter::Burst) || latest_.burst >= 1;
    const bool hasSample = !takes(algorithm_, Parameter::Sample) || latest_.sample >= 1;
    return hasBurst && hasSample && latest_.sample >= 1;
}

/// `value`: what follows the word.
bool Arguments::readOption(Option option, std::string_view value) {
    const auto isNumber = [value](double& number) { return wholeNumberIn(value, number); };
    const auto isSet = [](bool& flag) { return flag = true; };
    switch (option) {
        case Option::Ids:
            return isSet(latest_.named);
        case Option::CountAll:
            return isSet(latest_.countsAll);
        case Option::Escalates:
            return isSet(latest_.escalates);
        case Option::Override:
            return isSet(latest_.hasOverride);
        case Option::Told:
            return isSet(latest_.isTold);
        case Option::Allow:
            return isNumber(latest_.allow);
        case Option::Deny:
            return isNumber(latest_.deny);
        case Option::Cost:
            return isNumber(latest_.cost);
        case Option::Delay:
            return isNumber(latest_.delay);
        case Option::Ahead:
            return isNumber(latest_.ahead);
        case Option::Block:
            return value.find(',') == std::string_view::npos ? isNumber(latest_.block) : readTimes(value);
        case Option::Settle:
            return isNumber(latest_.settle);
        case Option::Ended:
            return isNumber(latest_.ended);
        case Option::Permits:
            return isNumber(latest_.permits);
        case Option::Held:
            return isNumber(latest_.held);
        case Option::Burst:
            return isNumber(latest_.burst);
        case Option::Sample:
            return isNumber(latest_.sample);
    }
    __builtin_unreachable();
}

/// Of block=.
bool Arguments::readTimes(std::string_view value) {
    latest_.times = value;
    latest_.escalates = true;
    const std::vector<double> times = timesIn(value);
    latest_.block = times.front();
    return std::ranges::all_of(times, [](double ms) { return ms >= 1 && ms <= kLongestBlock; });
}

bool Arguments::number(double& out) {
    return at_ < words_.size() && wholeNumberIn(text(at_++), out);
}

}  // namespace sliding_log::native
