#include "block_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "limit/block_form.hpp"

namespace sliding_log::native {

namespace {

// The call names only the key of the log. So Redis has not checked the rights for the key beside it, and these commands
// have it do so.
constexpr Command kMget{.name = "MGET", .asUser = true};
constexpr Command kSet{.name = "SET", .writes = true, .grows = true, .asUser = true};
constexpr Command kDelBlocks{.name = "DEL", .writes = true, .asUser = true};

constexpr std::size_t kNumbers = 3;  // of a block
constexpr double kMostSteps = 1000;

std::string wordsOf(const BlockMemory::Blocks& blocks) {
    std::string text;
    for (double number : blocks) {
        text += (text.empty() ? "" : " ") + native::textOf(number);
    }
    return text;
}

/// Empty if the text has another form.
BlockMemory::Blocks blocksIn(std::string_view text) {
    constexpr std::size_t kLongest = 120;
    BlockMemory::Blocks blocks;
    for (std::string_view rest = text.size() <= kLongest ? text : std::string_view(); !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        double number = 0;
        if (!wholeNumberIn(rest.substr(0, end), number)) {
            return {};
        }
        blocks.push_back(number);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    bool isRight = blocks.size() == kNumbers || blocks.size() == 2 * kNumbers;
    for (std::size_t i = 0; isRight && i < blocks.size(); i += kNumbers) {
        isRight = blocks[i] <= kLatestTime && blocks[i + 1] >= 1 && blocks[i + 1] <= kLongestBlock &&
                  blocks[i + 2] >= 1 && blocks[i + 2] <= kMostSteps;
    }
    return isRight && wordsOf(blocks) == text ? blocks : BlockMemory::Blocks();
}

}  // namespace

std::optional<BlockMemory::Blocks> BlockMemory::read(const Log& log) {
    const NameBeside name(redis_, log.key, kBlocksSuffix);
    const Reply found = redis_.tried(kMget, log.key, {name.text()});
    if (!found.isError()) {
        return blocksIn(found.at(1));
    }
    const std::string error = found.errorText();
    if (error.find(kNonLocalKey) == std::string::npos && error.find("during rehashing") == std::string::npos) {
        found.raise();
    }
    return std::nullopt;
}

void BlockMemory::write(const Log& log, const Blocks& blocks, double rest) {
    const double slack = std::max(log.ttl - log.window, 1.0);
    redis_.call(kSet, NameBeside(redis_, log.key, kBlocksSuffix).string(),
                {wordsOf(blocks), "PX", native::textOf(rest + slack)});
}

std::optional<BlockMemory::Blocks> BlockMemory::begin(const Log& log) {
    const std::optional<Blocks> before = read(log);
    if (!before) {
        return std::nullopt;
    }
    const std::vector<double> times = timesIn(log.times);
    const bool isRemembered = !before->empty() && clock_.now - before->at(0) <= before->at(1);
    const double step = isRemembered ? std::min(before->at(2) + 1, static_cast<double>(times.size())) : 1;
    const double length = times[static_cast<std::size_t>(step) - 1];
    Blocks blocks = {clock_.now + length, length, step};
    if (step > 1) {
        blocks.insert(blocks.end(), before->begin(), before->begin() + kNumbers);
    }
    return blocks;
}

void BlockMemory::forget(const Log& log, const Blocks& blocks, double until) {
    if ((blocks.empty() ? -1 : blocks[0]) < until) {  // false if a corrupt time is not a number
        return;
    }
    const bool hasOlder = blocks.size() > kNumbers;
    const double rest = hasOlder ? blocks[4] - std::max(clock_.now - blocks[3], 0.0) : -1;
    if (rest >= 0) {
        write(log, Blocks(blocks.begin() + kNumbers, blocks.end()), rest);
    } else {
        redis_.call(kDelBlocks, NameBeside(redis_, log.key, kBlocksSuffix).string(), {});
    }
}

}  // namespace sliding_log::native
