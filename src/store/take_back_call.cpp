#include "store/take_back_call.hpp"

#include <algorithm>
#include <string>

#include "this_process.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kZrem = "ZREM";
constexpr std::string_view kTakeBack = "take back";

}  // namespace

std::string_view TakeBackCall::text() {
    if (!isRelease) {
        return Call::text();
    }
    Beginning beginning;
    beginCommand(beginning, words);
    appendArgument(beginning, kZrem);
    return from(beginning.view());
}

void TakeBackCall::prepare() {
    if (variant == Variant::Owes && !isStamped_) {
        tellEnds();
    }
}

/// Each stands in the text in the order of the take-backs, once for each log that owes.
void TakeBackCall::tellEnds() {
    std::size_t at = argumentsAt_;
    for (const TakeBack* takeBack : takeBacks) {
        std::string digits(kEndedDigits, '0');
        const ngx_msec_t agoMs = std::min<ngx_msec_t>(nowMs() - takeBack->ended, kLongestTimeMs);
        const DecimalText ago(static_cast<std::int64_t>(agoMs));
        ago.view().copy(digits.data() + kEndedDigits - ago.view().size(), kEndedDigits);
        for (std::size_t told = 0; told < takeBack->ends; told++) {
            at = command.find(kEndedOption, at) + kEndedOption.size();
            digits.copy(command.data() + at, kEndedDigits);
        }
    }
}

void TakeBackCall::write(std::span<TakeBack* const> parts, std::string_view now) {
    const TakeBack& first = *parts.front();
    reset(first.algorithm, first.hashSlot);
    takeBacks.assign(parts.begin(), parts.end());
    isRelease = first.isRelease;
    isPaced = false;
    isStamped_ = !now.empty();
    keys = members = words = 0;
    command.resize(kRoom);
    for (const TakeBack* each : parts) {
        variant = each->owes ? Variant::Owes : variant;
        if (!first.isRelease || keys == 0) {
            command.append(each->keys);
            keys += each->logs;
        }
        words += each->words;
    }
    members = words;
    argumentsAt_ = command.size();
    words += keys + 1;  // ZREM
    if (!first.isRelease) {
        appendArgument(command, kTakeBack);
        appendArgument(command, now);
        words += 4;  // and EVALSHA, the script, the number of keys
    }
    for (const TakeBack* each : parts) {
        command.append(each->arguments);
    }
    if (variant == Variant::Owes) {
        tellEnds();
    }
}

void TakeBackWriter::write(TakeBack& takeBack, std::span<const Check> checks, std::string_view unique,
                           std::uint64_t loggedMs, std::uint64_t takenMs) {
    text_.clear();
    text_.arguments().takeBack(checks.front().algorithm, loggedMs, takenMs);
    text_.arguments().batch(checks.size(), 1);
    text_.arguments().request(unique);
    for (Check check : checks) {
        check.hasOverride = false;
        text_.arguments().log(check);
        if (check.named) {
            text_.arguments().id(check.id);
        }
    }
    takeBack.keys.assign(text_.keys());
    takeBack.arguments.assign(text_.words());
    takeBack.logs = text_.keyCount();
    takeBack.words = text_.wordCount();
    takeBack.ends = 0;
    for (std::size_t at = 0; takeBack.owes && (at = takeBack.arguments.find(kEndedOption, at)) != std::string::npos;
         at++) {
        takeBack.ends++;
    }
}

void TakeBackWriter::writeRelease(TakeBack& takeBack, const Check& check, std::string_view unique) {
    takeBack.isRelease = true;
    takeBack.keys.clear();
    appendArgument(takeBack.keys, check.key);
    takeBack.arguments.clear();
    takeBack.logs = 1;
    takeBack.words = 0;
    forEachMember(check.cost, unique, [&](std::string_view member) {
        appendArgument(takeBack.arguments, member);
        takeBack.words++;
    });
}

}  // namespace sliding_log
