#include "node/known_denials.hpp"

#include <algorithm>
#include <array>

namespace sliding_log {

namespace {

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
    const std::size_t sets = (bytes - share) / (kSlotBytes * kWays);
    headings_ = Sets<HeadingsOfSet>(static_cast<char*>(memory) + share, sets * sizeof(HeadingsOfSet));
    records_ = reinterpret_cast<RecordsOfSet*>(headings_.all().data() + sets);
}

/// The request is admitted a delay before there is room.
bool KnownDenials::Entry::denies(const Check& check, std::uint64_t nowMs) const {
    const std::uint64_t at = retryAt.load(kRelaxed);
    return at != 0 && check.cost >= cost.load(kRelaxed) &&
           (at == kNeverAt || nowMs + static_cast<std::uint64_t>(check.delayMs) + 1 < at);
}

Verdict KnownDenials::Entry::verdictOf(const Check& check, std::uint64_t nowMs) const {
    const std::uint64_t at = retryAt.load(kRelaxed);
    const std::int64_t ofCost = cost.load(kRelaxed);
    Verdict verdict{.remaining = remaining.load(kRelaxed),
                    .resetMs = left(resetAt.load(kRelaxed), nowMs),
                    .retryMs = at == kNeverAt ? Verdict::kNever : left(at, nowMs),
                    .override = unpacked(override.load(kRelaxed))};
    if (check.cost == ofCost || verdict.override.decides()) {
        return verdict;
    }
    if (check.neverHasRoom(verdict.override)) {
        verdict.retryMs = Verdict::kNever;
    } else if (at == 0 || check.cost < ofCost) {
        // what is left tells whether it has room, and that there is none before more is left
        verdict.retryMs = check.cost <= verdict.remaining ? 0 : verdict.resetMs;
    }
    return verdict;
}

bool KnownDenials::Record::denies(std::span<const Check> checks, std::uint64_t nowMs) const {
    for (std::size_t i = 0; i < checks.size(); i++) {
        if (entries[i].denies(checks[i], nowMs)) {
            return true;
        }
    }
    return false;
}

bool KnownDenials::Record::isCoveredBy(std::span<const Check> checks, std::span<const Verdict> verdicts) const {
    for (std::size_t i = 0; i < checks.size(); i++) {
        if (entries[i].retryAt.load(kRelaxed) != 0 &&
            (verdicts[i].hasRoom() || checks[i].cost > entries[i].cost.load(kRelaxed))) {
            return false;
        }
    }
    return true;
}

bool KnownDenials::Record::covers(std::span<const Check> checks, std::span<const Verdict> verdicts,
                                  std::uint64_t nowMs) const {
    for (std::size_t i = 0; i < checks.size(); i++) {
        if (!verdicts[i].hasRoom() && !entries[i].denies(checks[i], nowMs)) {
            return false;
        }
    }
    return true;
}

bool KnownDenials::denies(const Slot& slot, const Signature& signature, std::span<const Check> checks,
                          std::uint64_t nowMs) const {
    return slot.isOf(signature) && slot.heading.until.load(kRelaxed) > nowMs &&
           slot.record.logs.load(kRelaxed) == checks.size() &&
           slot.record.generation.load(kRelaxed) == generation(signature) && slot.record.denies(checks, nowMs);
}

DenialState KnownDenials::find(const Signature& signature, std::span<const Check> checks, std::uint64_t nowMs,
                               std::span<Verdict> verdicts) const {
    DenialState found = DenialState::None;
    for (const Slot slot : setOf(signature)) {
        const auto& [heading, record] = slot;
        if (heading.hash.load(kRelaxed) != signature.identityHash || heading.until.load(kRelaxed) <= nowMs) {
            continue;  // without a look at the record
        }
        const std::uint64_t begin = record.sequence.beginReading();
        if (!denies(slot, signature, checks, nowMs)) {
            continue;
        }
        std::array<Verdict, kMostLogs> read;  // verdicts may be those of another record
        for (std::size_t i = 0; i < verdicts.size(); i++) {
            read[i] = record.entries[i].verdictOf(checks[i], nowMs);
        }
        const bool isDue = record.dueAt.load(kRelaxed) <= nowMs;
        if (!record.sequence.isWhole(begin)) {
            continue;
        }
        std::ranges::copy_n(read.begin(), static_cast<std::ptrdiff_t>(verdicts.size()), verdicts.begin());
        if (!isDue) {
            return DenialState::Holds;
        }
        found = DenialState::Due;  // unless the other one holds
    }
    return found;
}

/// A record that was overwritten in the meantime is due at another time, so it is not claimed by mistake; a request
/// that no longer finds a denial asks.
bool KnownDenials::claim(const Signature& signature, std::span<const Check> checks, std::uint64_t nowMs) {
    for (const Slot slot : setOf(signature)) {
        if (!slot.record.sequence.isWritten() && denies(slot, signature, checks, nowMs)) {
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
    if (lastsMs == 0 || verdicts.size() > kMostLogs || signature.identityBytes > kLongestIdentity ||
        generation(signature) != sentGeneration) {
        return;
    }
    const std::optional<Slot> slot = slotFor({signature, checks, verdicts, sentGeneration, sentMs, sentMs + lastsMs});
    if (!slot) {
        return;
    }
    const Writing writing(slot->record.sequence, self_);
    if (!writing) {
        return;
    }
    auto& [heading, record] = *slot;
    record.logs.store(static_cast<std::uint32_t>(verdicts.size()), kRelaxed);
    heading.hash.store(signature.identityHash, kRelaxed);
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
        entry.cost.store(checks[i].cost, kRelaxed);
    }
    record.identity.set(signature.identity());
}

/// As a whole: that other costs are denied is asked once more.
void KnownDenials::erase(const Signature& signature, std::span<const Check> checks) {
    for (const Slot slot : setOf(signature)) {
        if (slot.isOf(signature) && slot.record.logs.load(kRelaxed) == checks.size() && slot.record.denies(checks, 0) &&
            slot.record.sequence.beginWriting(self_)) {
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

/// Of the denials of this identity one that this one replaces, or the one that ends first if there are two. Else one
/// that is abandoned, or is over; for the first one of an identity, otherwise the one that ends first. None: it is
/// known already, or all are being written.
std::optional<KnownDenials::Slot> KnownDenials::slotFor(const Denial& denial) const {
    constexpr std::uint64_t kAbandoned = 0;
    constexpr std::uint64_t kOver = 1;
    const auto set = setOf(denial.signature);
    const auto untilOf = [](const Slot& slot) { return slot.heading.until.load(kRelaxed); };
    const auto isOwn = [&](const Slot& slot) {
        return !slot.record.sequence.isWritten() && slot.isOf(denial.signature);
    };
    unsigned owned = 0;
    for (const Slot slot : set) {
        if (!isOwn(slot)) {
            continue;
        }
        const std::uint64_t until = untilOf(slot);
        const Record& record = slot.record;
        if (until <= denial.sentMs || record.generation.load(kRelaxed) != denial.generation) {
            return slot;
        }
        const bool isCovered = record.isCoveredBy(denial.checks, denial.verdicts);
        const bool covers =
            record.covers(denial.checks, denial.verdicts, std::max(denial.sentMs, denial.until - kSoonMs));
        if (isCovered && (covers || denial.until + kSoonMs >= until)) {
            return slot;
        }
        if (covers && until + kSoonMs >= denial.until) {
            return std::nullopt;
        }
        owned++;
    }
    using Rank = std::optional<std::uint64_t>;
    const auto ofOthers = victimOf(set, [&](const Slot& slot) -> Rank {
        if (slot.record.sequence.isWritten()) {
            return slot.record.sequence.isAbandoned(self_) ? Rank(kAbandoned) : std::nullopt;
        }
        const std::uint64_t until = untilOf(slot);
        return slot.isOf(denial.signature) ? std::nullopt : Rank(until <= denial.sentMs ? kOver : until);
    });
    const bool isFree = ofOthers && ofOthers->rank <= kOver;
    if (owned == 0 || (owned < kMostOfOne && isFree)) {
        return ofOthers ? std::optional<Slot>(*ofOthers->way) : std::nullopt;
    }
    const auto ofOwn =
        victimOf(set, [&](const Slot& slot) { return isOwn(slot) ? Rank(untilOf(slot)) : std::nullopt; });
    return ofOwn ? std::optional<Slot>(*ofOwn->way) : std::nullopt;
}

}  // namespace sliding_log
