#include "store/denials.hpp"

#include <algorithm>

namespace sliding_log {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kNeverAt = ~std::uint64_t{0};
constexpr std::size_t kCacheLine = 64;

std::int64_t left(std::uint64_t at, std::uint64_t nowMs) {
    return at > nowMs ? static_cast<std::int64_t>(at - nowMs) : 0;
}

/// The time for which the limits deny, from the question, at most the maximum age. With several limits, one denial is
/// enough.
std::uint64_t deniedFor(std::span<const Question> questions, std::span<const Verdict> verdicts) {
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const std::int64_t retry = verdicts[i].retryMs;
        // the server rounds down to milliseconds, so there may be room up to 1 ms earlier
        longest = std::max(longest, retry == Verdict::kNever ? static_cast<std::int64_t>(Denials::kLastsMs)
                                                             : retry - questions[i].delayMs - 1);
    }
    return std::min(static_cast<std::uint64_t>(longest), Denials::kLastsMs);
}

}  // namespace

Denials::Denials(void* memory, std::size_t bytes) {
    const std::size_t share = bytes / kShareOfGenerations / kCacheLine * kCacheLine;
    generations_ = static_cast<Generation*>(memory);
    generationCount_ = share / sizeof(Generation);
    slots_ = reinterpret_cast<Slot*>(static_cast<char*>(memory) + share);
    sets_ = (bytes - share) / (kSlotBytes * kWays);
}

Belief Denials::find(const Signature& signature, std::uint64_t nowMs, std::span<Verdict> verdicts) const {
    for (const Slot& slot : setOf(signature)) {
        const std::uint32_t begin = slot.sequence.beginReading();
        if (!slot.isOf(signature) || slot.until.load(kRelaxed) <= nowMs ||
            slot.logs.load(kRelaxed) != verdicts.size() || slot.generation.load(kRelaxed) != generation(signature)) {
            continue;
        }
        for (std::size_t i = 0; i < verdicts.size(); i++) {
            const Entry& entry = slot.entries[i];
            const std::uint64_t retryAt = entry.retryAt.load(kRelaxed);
            verdicts[i].remaining = entry.remaining.load(kRelaxed);
            verdicts[i].resetMs = left(entry.resetAt.load(kRelaxed), nowMs);
            verdicts[i].retryMs = retryAt == kNeverAt ? Verdict::kNever : left(retryAt, nowMs);
        }
        const bool isDue = slot.dueAt.load(kRelaxed) <= nowMs;
        if (slot.sequence.isWhole(begin)) {
            return isDue ? Belief::Due : Belief::Holds;
        }
    }
    return Belief::None;
}

/// A slot that was overwritten in the meantime is due at another time, so it is not claimed by mistake; a request that
/// no longer finds a denial asks.
bool Denials::claim(const Signature& signature, std::uint64_t nowMs) {
    const std::span<Slot> set = setOf(signature);
    const auto slot = std::ranges::find_if(set, [&](const Slot& each) { return each.isOf(signature); });
    if (slot == set.end()) {
        return true;
    }
    std::uint64_t dueAt = slot->dueAt.load(kRelaxed);
    return dueAt <= nowMs && slot->dueAt.compare_exchange_strong(dueAt, kNeverAt, kRelaxed);
}

std::uint32_t Denials::generation(const Signature& signature) const {
    std::uint32_t sum = 0;
    for (const std::uint32_t log : signature.logs()) {
        sum += generationOf(log).load(std::memory_order_acquire);
    }
    return sum;
}

void Denials::publish(const Signature& signature, std::uint32_t sentGeneration, std::uint64_t sentMs,
                      std::span<const Question> questions, std::span<const Verdict> verdicts) {
    const std::uint64_t lastsMs = deniedFor(questions, verdicts);
    if (lastsMs == 0 || verdicts.size() > kMostLogs || signature.text.size() > kLongestSignature ||
        generation(signature) != sentGeneration) {
        return;
    }
    Slot* slot = slotFor(signature);
    if (slot == nullptr || !slot->sequence.beginWriting()) {
        return;
    }
    slot->logs.store(verdicts.size(), kRelaxed);
    slot->hash.store(signature.hash, kRelaxed);
    slot->until.store(sentMs + lastsMs, kRelaxed);
    slot->dueAt.store(lastsMs == kLastsMs ? sentMs + kDueAfterMs : kNeverAt, kRelaxed);
    slot->generation.store(sentGeneration, kRelaxed);
    const auto at = [&](std::int64_t ms) { return sentMs + static_cast<std::uint64_t>(ms); };
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const Verdict& verdict = verdicts[i];
        Entry& entry = slot->entries[i];
        entry.remaining.store(verdict.remaining, kRelaxed);
        entry.resetAt.store(at(verdict.resetMs), kRelaxed);
        entry.retryAt.store(verdict.retryMs == Verdict::kNever ? kNeverAt
                            : verdict.hasRoom()                ? 0
                                                               : at(verdict.retryMs),
                            kRelaxed);
    }
    slot->signature.set(signature.text);
    slot->sequence.endWriting();
}

void Denials::forget(const Signature& signature) {
    for (Slot& slot : setOf(signature)) {
        if (slot.isOf(signature) && slot.sequence.beginWriting()) {
            slot.until.store(0, kRelaxed);
            slot.sequence.endWriting();
        }
    }
}

void Denials::entriesLeave(std::span<const std::uint32_t> logs) {
    for (const std::uint32_t log : logs) {
        generationOf(log).fetch_add(1, std::memory_order_release);
    }
}

/// The slot that has it, otherwise the one that is over or ends first; nullptr: all slots are being written.
Denials::Slot* Denials::slotFor(const Signature& signature) {
    Slot* first = nullptr;
    for (Slot& slot : setOf(signature)) {
        if (slot.sequence.isWritten()) {
            continue;
        }
        if (slot.isOf(signature)) {
            return &slot;
        }
        if (first == nullptr || slot.until.load(kRelaxed) < first->until.load(kRelaxed)) {
            first = &slot;
        }
    }
    return first;
}

}  // namespace sliding_log
