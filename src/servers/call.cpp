#include "servers/call.hpp"

#include <algorithm>

#include "redis/native_command.hpp"
#include "redis/scripts.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kEvalSha = "EVALSHA";

static_assert(std::ranges::all_of(kAlgorithms, [](const AlgorithmRow& row) { return row.name.size() <= 12; }));

}  // namespace

std::string_view Call::text() {
    Beginning beginning;
    beginCommand(beginning, words);
    appendArgument(beginning, isNative ? kNativeCommand : kEvalSha);
    appendArgument(beginning, isNative ? nameOf(algorithm) : scriptSha(algorithm));
    appendArgument(beginning, DecimalText(static_cast<std::int64_t>(keys)).view());
    return from(beginning.view());
}

std::string_view Call::from(std::string_view beginning) {
    const std::size_t at = kRoom - beginning.size();
    beginning.copy(command.data() + at, beginning.size());
    return std::string_view(command).substr(at);
}

void Call::reset(Algorithm newAlgorithm, std::uint16_t newHashSlot) {
    algorithm = newAlgorithm;
    hashSlot = newHashSlot;
    variant = Variant::Usual;
    followsAsk = isPart = isOnWire = isNative = isShort = leavesNative = leavesShort = false;
    scriptMisses = repetitions = 0;
    command.clear();
}

void CallText::clear() {
    keys_.clear();
    words_.clear();
    keyCount_ = wordCount_ = 0;
}

void CallText::writeTo(Call& call) const {
    call.keys = keyCount_;
    call.words = 3 + keyCount_ + wordCount_;
    call.command.resize(Call::kRoom);
    call.command.append(keys_).append(words_);
}

void CallText::freeMemory() {
    std::string().swap(keys_);  // one that is assigned keeps its memory
    std::string().swap(words_);
}

}  // namespace sliding_log
