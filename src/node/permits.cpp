#include "node/permits.hpp"

#include <algorithm>

namespace sliding_log {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// The number of a lot, and how many of its permits are left, in one word, so that a permit is used by one exchange.
struct LotWord {
    std::uint32_t lot;
    std::uint32_t left;

    explicit LotWord(std::uint64_t word)
        : lot(static_cast<std::uint32_t>(word >> 32)), left(static_cast<std::uint32_t>(word)) {}
    LotWord(std::uint32_t lotNumber, std::uint32_t leftPermits) : lot(lotNumber), left(leftPermits) {}

    std::uint64_t word() const { return std::uint64_t{lot} << 32 | left; }
};

/// Permits that ended this time ago, in ms, were left by a worker that was killed.
constexpr std::uint64_t kAbandonedAfterMs = 2000;

/// The lot after this one. 0 is the number of none. Records of a set have other numbers, since a key may return to
/// another record while permits of its lots are in use.
std::uint32_t nextLot(std::uint32_t lot) {
    const std::uint32_t next = lot + Permits::kWays;
    return next == 0 ? Permits::kWays : next;
}

/// How many requests of a key were admitted since `begin`, and in the life before.
struct Usage {
    static constexpr unsigned kCountBits = 14;
    static constexpr std::uint64_t kMostCount = (1U << kCountBits) - 1;
    static_assert(kMostCount == Permits::kMostPermits);

    std::uint64_t begin;
    std::uint64_t current;
    std::uint64_t before;

    explicit Usage(std::uint64_t word)
        : begin(word >> 2 * kCountBits), current(word >> kCountBits & kMostCount), before(word & kMostCount) {}

    std::uint64_t word() const { return begin << 2 * kCountBits | current << kCountBits | before; }

    /// Begins another life if this one is over. `now` may be earlier than what another process has read.
    void advance(std::uint64_t now, std::uint64_t lifeMs) {
        constexpr std::uint64_t kMostBegin = ~std::uint64_t{0} >> 2 * kCountBits;
        const std::uint64_t passed = (now - begin) & kMostBegin;
        if (passed >= lifeMs && passed <= kMostBegin / 2) {
            before = passed < 2 * lifeMs ? current : 0;
            current = 0;
            begin = now & kMostBegin;
        }
    }
};

}  // namespace

std::optional<Permit> Permits::use(const Signature& signature, const Check& check, Verdict& verdict, Clock clock) {
    for (Record& record : setOf(signature.logs().front())) {
        const std::uint64_t begin = record.sequence.beginReading();
        LotWord word(record.permits.load(std::memory_order_acquire));
        if (word.left == 0 || !record.isOf(signature)) {
            continue;
        }
        Permit permit;
        permit.lot = word.lot;
        permit.loggedMs = record.loggedMs.load(kRelaxed);
        permit.name.assign(record.name);
        const std::int64_t remaining = record.remaining.load(kRelaxed);
        const std::uint64_t resetAt = record.resetAt.load(kRelaxed);
        const std::uint64_t endsAt = record.endsAt.load(kRelaxed);
        if (!record.sequence.isWhole(begin)) {
            continue;
        }
        std::uint64_t expected = word.word();
        while (!record.permits.compare_exchange_weak(expected, LotWord(word.lot, word.left - 1).word(),
                                                     std::memory_order_acq_rel)) {
            word = LotWord(expected);
            if (word.lot != permit.lot || word.left == 0) {
                return std::nullopt;
            }
        }
        permit.position = word.left;
        const std::uint64_t now = clock();
        if (now >= endsAt) {
            permit.hasEnded = !giveBack(signature, check, permit);
            return permit.hasEnded ? std::optional(permit) : std::nullopt;
        }
        noteUse(record, now, static_cast<std::uint64_t>(check.permitLifeMs), 1);
        verdict.remaining = std::min(remaining + std::int64_t{word.left - 1} * check.cost, check.capacity());
        verdict.resetMs = resetAt > now ? static_cast<std::int64_t>(resetAt - now) : 1;
        verdict.retryMs = verdict.delayMs = 0;
        verdict.isFirst = false;
        return permit;
    }
    return std::nullopt;
}

bool Permits::giveBack(const Signature& signature, const Check& check, const Permit& permit) {
    Record* record = find(signature);
    if (record == nullptr) {
        return false;
    }
    std::uint64_t expected = LotWord(permit.lot, permit.position - 1).word();
    if (record->permits.compare_exchange_strong(expected, LotWord(permit.lot, permit.position).word(),
                                                std::memory_order_acq_rel)) {
        return true;
    }
    if (LotWord(expected).lot == permit.lot) {
        record->entries.fetch_sub(check.cost, kRelaxed);  // so that noteEntries() does not find too few in the log
    }
    return false;
}

std::uint32_t Permits::wanted(const Signature& signature, std::uint64_t now, std::uint64_t lifeMs, std::uint32_t most,
                              std::uint64_t until) {
    Record* record = find(signature);
    if (record == nullptr || record->sequence.isWritten()) {  // a lot could not be stored if the writer does not end
        return 0;
    }
    Usage usage(record->usage.load(kRelaxed));
    usage.advance(now, lifeMs);
    const auto used = static_cast<std::uint32_t>(std::max(usage.current, usage.before));
    std::uint64_t askedUntil = record->askedUntil.load(kRelaxed);
    const bool asks = used > 0 && askedUntil <= now &&
                      record->askedUntil.compare_exchange_strong(askedUntil, until, std::memory_order_relaxed);
    return asks ? std::min(used, most) : 0;
}

void Permits::noteAdmitted(const Signature& signature, std::uint64_t now, std::uint64_t lifeMs,
                           std::uint32_t requests) {
    if (Record* record = recordFor(signature, now)) {
        noteUse(*record, now, lifeMs, requests);
    }
}

/// An estimate: a count that another process changes at the same time is lost.
void Permits::noteUse(Record& record, std::uint64_t now, std::uint64_t lifeMs, std::uint64_t requests) {
    std::uint64_t before = record.usage.load(kRelaxed);
    Usage usage(before);
    usage.advance(now, lifeMs);
    usage.current = std::min(usage.current + requests, Usage::kMostCount);
    record.usage.compare_exchange_strong(before, usage.word(), kRelaxed);
}

void Permits::endAsking(const Signature& signature) {
    if (Record* record = find(signature)) {
        record->askedUntil.store(0, kRelaxed);
    }
}

std::uint32_t Permits::grant(const Signature& signature, const Lot& lot, std::uint64_t now) {
    Record* record = find(signature);
    if (record == nullptr || !record->sequence.beginWriting(self_)) {
        return 0;
    }
    const LotWord before(record->permits.load(kRelaxed));
    if (before.left > 0 || !record->isOf(signature)) {  // it may have been replaced in the meantime
        record->sequence.endWriting();
        return 0;
    }
    const std::uint32_t number = nextLot(before.lot);
    record->permits.store(LotWord(number, 0).word(), std::memory_order_release);
    record->name.set(lot.name);
    record->loggedMs.store(lot.loggedMs, kRelaxed);
    record->entries.store(lot.entries, kRelaxed);
    record->remaining.store(lot.remaining, kRelaxed);
    record->resetAt.store(lot.resetAt, kRelaxed);
    record->grantedAt.store(now, kRelaxed);
    record->endsAt.store(lot.endsAt, kRelaxed);
    record->askedUntil.store(0, kRelaxed);
    record->permits.store(LotWord(number, lot.permits).word(), std::memory_order_release);
    record->sequence.endWriting();
    return number;
}

std::uint32_t Permits::end(const Signature& signature, std::uint32_t lot) {
    Record* record = find(signature);
    if (record == nullptr) {
        return 0;
    }
    std::uint64_t expected = record->permits.load(kRelaxed);
    do {
        if (LotWord(expected).lot != lot) {
            return 0;
        }
    } while (
        !record->permits.compare_exchange_weak(expected, LotWord(nextLot(lot), 0).word(), std::memory_order_acq_rel));
    return LotWord(expected).left;
}

Leftover Permits::endLatest(const Signature& signature) {
    Leftover leftover;
    Record* record = find(signature);
    if (record == nullptr) {
        return leftover;
    }
    const std::uint64_t begin = record->sequence.beginReading();
    const LotWord latest(record->permits.load(std::memory_order_acquire));
    leftover.loggedMs = record->loggedMs.load(kRelaxed);
    leftover.name.assign(record->name);
    if (latest.left > 0 && record->sequence.isWhole(begin)) {
        leftover.permits = end(signature, latest.lot);
    }
    return leftover;
}

/// The keys are compared, since clients can choose another one with the same hash.
void Permits::noteEntries(std::uint64_t store, std::string_view key, std::int64_t entries, std::uint64_t sentAt) {
    const std::uint32_t log = Signature::hashOfLog(key);
    for (Record& record : setOf(log)) {
        const std::uint64_t begin = record.sequence.beginReading();
        std::uint64_t expected = record.permits.load(std::memory_order_acquire);
        const bool isGone = LotWord(expected).left > 0 && record.log.load(kRelaxed) == log &&
                            record.grantedAt.load(kRelaxed) < sentAt && record.endsAt.load(kRelaxed) > sentAt &&
                            entries < record.entries.load(kRelaxed) && record.isOfLog(store, key);
        while (isGone && record.sequence.isWhole(begin) && LotWord(expected).left > 0) {
            const LotWord word(expected);
            if (record.permits.compare_exchange_weak(expected, LotWord(nextLot(word.lot), 0).word(),
                                                     std::memory_order_acq_rel)) {
                break;
            }
        }
    }
}

bool Permits::Record::isOfLog(std::uint64_t store, std::string_view key) const {
    char text[kLongestSignature];
    return Signature::isOfLog({text, signature.copyTo(text)}, store, key);
}

Permits::Record* Permits::find(const Signature& signature) const {
    const std::span<Record> set = setOf(signature.logs().front());
    const auto found = std::ranges::find_if(set, [&](const Record& each) { return each.isOf(signature); });
    return found == set.end() ? nullptr : &*found;
}

/// The record that has it, otherwise an abandoned one or the one without permits that was used least recently, which it
/// replaces. nullptr: all have permits, or another process writes it.
Permits::Record* Permits::recordFor(const Signature& signature, std::uint64_t now) {
    Record* record = find(signature);
    if (record != nullptr && !record->sequence.isAbandoned(self_)) {
        return record;
    }
    if (signature.text.size() > kLongestSignature) {
        return nullptr;
    }
    const auto rankOf = [&](const Record& each) -> std::optional<std::uint64_t> {
        if (each.sequence.isWritten()) {
            // the first one that was left: find() must not find what was left of the same check before it
            return each.sequence.isAbandoned(self_) ? std::optional<std::uint64_t>(0) : std::nullopt;
        }
        const bool hasPermits =
            LotWord(each.permits.load(kRelaxed)).left > 0 && each.endsAt.load(kRelaxed) + kAbandonedAfterMs > now;
        return hasPermits ? std::nullopt : std::optional(1 + Usage(each.usage.load(kRelaxed)).begin);
    };
    const std::span<Record> set = setOf(signature.logs().front());
    const auto victim = victimOf(set, rankOf);
    if (!victim) {
        return nullptr;
    }
    Record* oldest = &*victim->way;
    const Writing writing(oldest->sequence, self_);
    if (!writing) {
        return nullptr;
    }
    const LotWord before(oldest->permits.load(kRelaxed));
    const auto way = static_cast<std::uint32_t>(oldest - set.data());
    oldest->permits.store(LotWord(nextLot(before.lot == 0 ? way : before.lot), 0).word(), std::memory_order_release);
    oldest->log.store(signature.logs().front(), kRelaxed);
    oldest->usage.store(0, kRelaxed);
    oldest->askedUntil.store(0, kRelaxed);
    oldest->endsAt.store(0, kRelaxed);
    oldest->hash.store(static_cast<std::uint32_t>(signature.hash), kRelaxed);
    oldest->signature.set(signature.text);
    return oldest;
}

}  // namespace sliding_log
