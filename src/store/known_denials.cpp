#include "store/known_denials.hpp"

#include <algorithm>

namespace sliding_log {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kNeverAt = ~std::uint64_t{0};
constexpr std::size_t kCacheLine = 64;

std::int64_t left(std::uint64_t at, std::uint64_t nowMs) {
    return at > nowMs ? static_cast<std::int64_t>(at - nowMs) : 0;
}

/// A record in one word. Its end is not shown of a denial.
constexpr unsigned kBitsOfLimit = 56;
static_assert(kLargestCount < std::int64_t{1} << kBitsOfLimit);

std::uint64_t packed(const Override& override) {
    return static_cast<std::uint64_t>(override.what) << kBitsOfLimit | static_cast<std::uint64_t>(override.limit);
}

Override unpacked(std::uint64_t word) {
    return {static_cast<Override::What>(word >> kBitsOfLimit),
            static_cast<std::int64_t>(word & ((std::uint64_t{1} << kBitsOfLimit) - 1)), 0};
}

/// The time for which the limits deny, from the check, at most the maximum age. With several limits, one denial is
/// enough.
std::uint64_t deniedFor(std::span<const Check> checks, std::span<const Verdict> verdicts) {
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const std::int64_t retry = verdicts[i].retryMs;
        // the server rounds down to milliseconds, so there may be room up to 1 ms earlier
        longest = std::max(longest, retry == Verdict::kNever ? static_cast<std::int64_t>(KnownDenials::kLastsMs)
                                                             : retry - checks[i].delayMs - 1);
    }
    return std::min(static_cast<std::uint64_t>(longest), KnownDenials::kLastsMs);
}

}  // namespace

KnownDenials::KnownDenials(void* memory, std::size_t bytes, pid_t self) : self_(static_cast<Sequence::Writer>(self)) {
    const std::size_t share = bytes / kShareOfGenerations / kCacheLine * kCacheLine;
    generations_ = static_cast<Generation*>(memory);
    generationCount_ = share / sizeof(Generation);
    sets_ = (bytes - share) / (kSlotBytes * kWays);
    headings_ = reinterpret_cast<Heading*>(static_cast<char*>(memory) + share);
    records_ = reinterpret_cast<Record*>(headings_ + sets_ * kWays);
}

DenialState KnownDenials::find(const Signature& signature, std::uint64_t nowMs, std::span<Verdict> verdicts) const {
    for (const Slot slot : setOf(signature)) {
        const auto& [heading, record] = slot;
        if (heading.hash.load(kRelaxed) != signature.hash || heading.until.load(kRelaxed) <= nowMs) {
            continue;  // without a look at the record
        }
        const std::uint64_t begin = record.sequence.beginReading();
        if (!slot.isOf(signature) || heading.until.load(kRelaxed) <= nowMs ||
            record.logs.load(kRelaxed) != verdicts.size() ||
            record.generation.load(kRelaxed) != generation(signature)) {
            continue;
        }
        for (std::size_t i = 0; i < verdicts.size(); i++) {
            const Entry& entry = record.entries[i];
            const std::uint64_t retryAt = entry.retryAt.load(kRelaxed);
            verdicts[i].remaining = entry.remaining.load(kRelaxed);
            verdicts[i].resetMs = left(entry.resetAt.load(kRelaxed), nowMs);
            verdicts[i].retryMs = retryAt == kNeverAt ? Verdict::kNever : left(retryAt, nowMs);
            verdicts[i].override = unpacked(entry.override.load(kRelaxed));
        }
        const bool isDue = record.dueAt.load(kRelaxed) <= nowMs;
        if (record.sequence.isWhole(begin)) {
            return isDue ? DenialState::Due : DenialState::Holds;
        }
    }
    return DenialState::None;
}

/// A record that was overwritten in the meantime is due at another time, so it is not claimed by mistake; a request
/// that no longer finds a denial asks.
bool KnownDenials::claim(const Signature& signature, std::uint64_t nowMs) {
    for (const Slot slot : setOf(signature)) {
        if (!slot.record.sequence.isWritten() && slot.isOf(signature)) {
            std::uint64_t dueAt = slot.record.dueAt.load(kRelaxed);
            return dueAt <= nowMs && slot.record.dueAt.compare_exchange_strong(dueAt, kNeverAt, kRelaxed);
        }
    }
    return true;
}

std::uint32_t KnownDenials::generation(const Signature& signature) const {
    std::uint32_t sum = 0;
    for (const std::uint32_t log : signature.logs()) {
        sum += generationOf(log).load(std::memory_order_acquire);
    }
    return sum;
}

void KnownDenials::publish(const Signature& signature, std::uint32_t sentGeneration, std::uint64_t sentMs,
                           std::span<const Check> checks, std::span<const Verdict> verdicts) {
    const std::uint64_t lastsMs = deniedFor(checks, verdicts);
    if (lastsMs == 0 || verdicts.size() > kMostLogs || signature.text.size() > kLongestSignature ||
        generation(signature) != sentGeneration) {
        return;
    }
    const std::optional<Slot> slot = slotFor(signature);
    if (!slot || !(slot->record.sequence.beginWriting(self_) || slot->record.sequence.takeOver(self_))) {
        return;
    }
    auto& [heading, record] = *slot;
    record.logs.store(static_cast<std::uint32_t>(verdicts.size()), kRelaxed);
    heading.hash.store(signature.hash, kRelaxed);
    heading.until.store(sentMs + lastsMs, kRelaxed);
    record.dueAt.store(lastsMs == kLastsMs ? sentMs + kDueAfterMs : kNeverAt, kRelaxed);
    record.generation.store(sentGeneration, kRelaxed);
    const auto at = [&](std::int64_t ms) { return sentMs + static_cast<std::uint64_t>(ms); };
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const Verdict& verdict = verdicts[i];
        Entry& entry = record.entries[i];
        entry.remaining.store(verdict.remaining, kRelaxed);
        entry.resetAt.store(at(verdict.resetMs), kRelaxed);
        entry.retryAt.store(verdict.retryMs == Verdict::kNever ? kNeverAt
                            : verdict.hasRoom()                ? 0
                                                               : at(verdict.retryMs),
                            kRelaxed);
        entry.override.store(packed(verdict.override), kRelaxed);
    }
    record.signature.set(signature.text);
    record.sequence.endWriting();
}

void KnownDenials::erase(const Signature& signature) {
    for (const Slot slot : setOf(signature)) {
        if (slot.isOf(signature) && slot.record.sequence.beginWriting(self_)) {
            slot.heading.until.store(0, kRelaxed);
            slot.record.sequence.endWriting();
        }
    }
}

void KnownDenials::entriesLeave(std::span<const std::uint32_t> logs) {
    for (const std::uint32_t log : logs) {
        generationOf(log).fetch_add(1, std::memory_order_release);
    }
}

/// The one that has it, otherwise one that is abandoned, or is over or ends first; none: all are being written.
std::optional<KnownDenials::Slot> KnownDenials::slotFor(const Signature& signature) const {
    std::optional<Slot> first;
    std::uint64_t firstUntil = kNeverAt;
    for (const Slot slot : setOf(signature)) {
        if (slot.record.sequence.isWritten()) {
            if (slot.record.sequence.isAbandoned(self_)) {
                first.emplace(slot);
                firstUntil = 0;
            }
            continue;
        }
        if (slot.isOf(signature)) {
            return slot;
        }
        const std::uint64_t until = slot.heading.until.load(kRelaxed);
        if (!first || until < firstUntil) {
            first.emplace(slot);
            firstUntil = until;
        }
    }
    return first;
}

}  // namespace sliding_log
