#include "node/permits.hpp"

#include <algorithm>

namespace sliding_log {

namespace {

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

/// The lot after this one at its place. 0 is the number of none. Records of a set have other numbers, since a key may
/// return to another record while permits of its lots are in use.
std::uint32_t nextLot(std::uint32_t lot) {
    constexpr std::uint32_t kPlaces = Permits::kWays * Permits::kLots;
    const std::uint32_t next = lot + kPlaces;
    return next == 0 ? kPlaces : next;
}

/// Where a record has this lot.
std::size_t placeOf(std::uint32_t lot) {
    return lot % Permits::kLots;
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
        const auto hasAny = [](const Held& lot) { return LotWord(lot.permits.load(kRelaxed)).left > 0; };
        if (std::ranges::none_of(record.lots, hasAny) || !record.isOf(signature)) {
            continue;
        }
        const std::size_t first = record.firstLot();
        for (std::size_t i = 0; i < kLots; i++) {
            const auto permit = use(record, begin, record.lots[(first + i) % kLots], signature, check, verdict, clock);
            if (permit) {
                return permit;
            }
        }
    }
    return std::nullopt;
}

/// Of this lot. `begin`: of reading the record, before its signature was compared.
std::optional<Permit> Permits::use(Record& record, std::uint64_t begin, Held& lot, const Signature& signature,
                                   const Check& check, Verdict& verdict, Clock clock) {
    LotWord word(lot.permits.load(std::memory_order_acquire));
    if (word.left == 0) {
        return std::nullopt;
    }
    Permit permit;
    permit.lot = word.lot;
    permit.loggedMs = lot.loggedMs.load(kRelaxed);
    permit.name.assign(lot.name);
    const std::uint64_t endsAt = lot.endsAt.load(kRelaxed);
    // the lot that was granted later knows better what remains, and all permits of the node are left
    const Held& other = record.lots[&lot == record.lots.data() ? 1 : 0];
    const std::uint32_t others = LotWord(other.permits.load(std::memory_order_acquire)).left;
    const bool isNext = others > 0 && &lot == &record.lots[record.firstLot()];
    const std::int64_t remaining = (isNext ? other : lot).remaining.load(kRelaxed);
    const std::uint64_t resetAt = (isNext ? other : lot).resetAt.load(kRelaxed);
    if (!record.sequence.isWhole(begin)) {
        return std::nullopt;
    }
    std::uint64_t expected = word.word();
    while (!lot.permits.compare_exchange_weak(expected, LotWord(word.lot, word.left - 1).word(),
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
    const auto lifeMs = static_cast<std::uint64_t>(check.permitLifeMs);
    permit.asksAhead = !isNext && isTimeToAsk(record, lot, word.left - 1, now, lifeMs);
    noteUse(record, now, lifeMs, 1);
    if (record.usedAt.load(kRelaxed) != now) {
        record.usedAt.store(now, kRelaxed);
    }
    const std::int64_t left = std::int64_t{word.left - 1} + (isNext ? others : 0);
    verdict.remaining = std::min(remaining + left * check.cost, check.capacity());
    verdict.resetMs = resetAt > now ? static_cast<std::int64_t>(resetAt - now) : 1;
    verdict.retryMs = verdict.delayMs = 0;
    verdict.isFirst = false;
    return permit;
}

/// A permit of this lot, the last one, was used, which leaves `left` of them. True if they end, or are used up at the
/// pace of the lot, before a call that is sent now would have its reply, and the next request is expected before that:
/// a key that goes idle needs no more of them. Half of the time of a call is added, since one may take longer than the
/// one before.
bool Permits::isTimeToAsk(const Record& record, const Held& lot, std::uint32_t left, std::uint64_t now,
                          std::uint64_t lifeMs) {
    constexpr std::uint64_t kRounding = 2;
    const std::uint64_t tookMs = record.tookMs.load(kRelaxed);
    const std::uint64_t leadMs = tookMs + tookMs / 2 + kRounding;
    const std::uint64_t endsAt = lot.endsAt.load(kRelaxed);
    const std::uint32_t granted = lot.granted.load(kRelaxed);
    const std::uint64_t pastMs = now - std::min(now, lot.grantedAt.load(kRelaxed));
    const bool isEnding = endsAt <= now + leadMs || left * (pastMs + 1) <= (granted - std::min(granted, left)) * leadMs;
    return isEnding && lifeMs > 2 * tookMs && lifeMs > leadMs && record.askedUntil.load(kRelaxed) <= now &&
           now - std::min(now, record.usedAt.load(kRelaxed)) <= leadMs;
}

bool Permits::giveBack(const Signature& signature, const Check& check, const Permit& permit) {
    Record* record = find(signature);
    if (record == nullptr) {
        return false;
    }
    Held& lot = record->lots[placeOf(permit.lot)];
    std::uint64_t expected = LotWord(permit.lot, permit.position - 1).word();
    if (lot.permits.compare_exchange_strong(expected, LotWord(permit.lot, permit.position).word(),
                                            std::memory_order_acq_rel)) {
        return true;
    }
    if (LotWord(expected).lot == permit.lot) {
        lot.entries.fetch_sub(check.cost, kRelaxed);  // so that noteEntries() does not find too few in the log
    }
    return false;
}

std::uint32_t Permits::wanted(const Signature& signature, std::uint64_t now, std::uint64_t lifeMs, std::uint32_t most,
                              std::uint64_t until) {
    Record* record = find(signature);
    const auto lasts = [&](const Held& lot) { return lastingOf(lot, now) > 0; };
    const bool mayAsk = record != nullptr && std::ranges::none_of(record->lots, lasts);
    return mayAsk ? wanted(*record, now, lifeMs, most, until) : 0;
}

/// What remains is told with answers, and decides nothing: it need not be guarded.
std::uint32_t Permits::noteRemaining(const Signature& signature, std::uint64_t now, std::uint64_t loggedBy,
                                     std::int64_t remaining) {
    Record* record = find(signature);
    std::uint32_t permits = 0;
    for (std::size_t i = 0; record != nullptr && i < kLots; i++) {
        Held& lot = record->lots[i];
        if (lot.loggedMs.load(kRelaxed) <= loggedBy) {
            permits += lastingOf(lot, now);
            lot.remaining.store(remaining, kRelaxed);
        }
    }
    return permits;
}

/// Those of a lot whose life has not ended.
std::uint32_t Permits::lastingOf(const Held& lot, std::uint64_t now) {
    return lot.endsAt.load(kRelaxed) > now ? LotWord(lot.permits.load(kRelaxed)).left : 0;
}

std::uint32_t Permits::wantedAhead(const Signature& signature, std::uint64_t now, std::uint64_t lifeMs,
                                   std::uint32_t most, std::uint64_t until, std::uint32_t& held) {
    Record* record = find(signature);
    if (record == nullptr) {
        return 0;
    }
    held = 0;
    for (const Held& lot : record->lots) {
        held += lastingOf(lot, now);
    }
    return wanted(*record, now, lifeMs, most, until);
}

std::uint32_t Permits::wanted(Record& record, std::uint64_t now, std::uint64_t lifeMs, std::uint32_t most,
                              std::uint64_t until) {
    if (record.sequence.isWritten()) {  // a lot could not be stored if the writer does not end
        return 0;
    }
    Usage usage(record.usage.load(kRelaxed));
    usage.advance(now, lifeMs);
    const auto used = static_cast<std::uint32_t>(std::max(usage.current, usage.before));
    std::uint64_t askedUntil = record.askedUntil.load(kRelaxed);
    const bool asks = used > 0 && askedUntil <= now &&
                      record.askedUntil.compare_exchange_strong(askedUntil, until, std::memory_order_relaxed);
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

void Permits::endAsking(const Signature& signature, std::uint64_t now) {
    if (Record* record = find(signature)) {
        record->askedUntil.store(now, kRelaxed);
    }
}

std::uint32_t Permits::grant(const Signature& signature, const Lot& lot, std::uint64_t now, std::uint64_t tookMs) {
    Record* record = find(signature);
    if (record == nullptr || !record->sequence.beginWriting(self_)) {
        return 0;
    }
    const auto isFree = [](const Held& each) { return LotWord(each.permits.load(kRelaxed)).left == 0; };
    const auto free = std::ranges::find_if(record->lots, isFree);
    if (free == record->lots.end() || !record->isOf(signature)) {  // it may have been replaced in the meantime
        record->sequence.endWriting();
        return 0;
    }
    Held& held = *free;
    const std::uint32_t number = nextLot(LotWord(held.permits.load(kRelaxed)).lot);
    held.permits.store(LotWord(number, 0).word(), std::memory_order_release);
    held.name.set(lot.name);
    held.loggedMs.store(lot.loggedMs, kRelaxed);
    held.entries.store(lot.entries, kRelaxed);
    held.remaining.store(lot.remaining, kRelaxed);
    held.resetAt.store(lot.resetAt, kRelaxed);
    held.grantedAt.store(now, kRelaxed);
    held.endsAt.store(lot.endsAt, kRelaxed);
    held.granted.store(lot.permits, kRelaxed);
    record->tookMs.store(static_cast<std::uint32_t>(tookMs), kRelaxed);
    record->askedUntil.store(0, kRelaxed);
    held.permits.store(LotWord(number, lot.permits).word(), std::memory_order_release);
    record->sequence.endWriting();
    return number;
}

std::uint32_t Permits::end(const Signature& signature, std::uint32_t lot) {
    Record* record = find(signature);
    return record == nullptr ? 0 : end(record->lots[placeOf(lot)], lot);
}

std::uint32_t Permits::end(Held& held, std::uint32_t lot) {
    std::uint64_t expected = held.permits.load(kRelaxed);
    do {
        if (LotWord(expected).lot != lot) {
            return 0;
        }
    } while (!held.permits.compare_exchange_weak(expected, LotWord(nextLot(lot), 0).word(), std::memory_order_acq_rel));
    return LotWord(expected).left;
}

std::array<Leftover, Permits::kLots> Permits::endAll(const Signature& signature, std::uint64_t by) {
    std::array<Leftover, kLots> leftovers;
    Record* record = find(signature);
    for (std::size_t i = 0; record != nullptr && i < kLots; i++) {
        Held& held = record->lots[i];
        const std::uint64_t begin = record->sequence.beginReading();
        const LotWord latest(held.permits.load(std::memory_order_acquire));
        leftovers[i].loggedMs = held.loggedMs.load(kRelaxed);
        leftovers[i].name.assign(held.name);
        const bool isOver = held.endsAt.load(kRelaxed) <= by;
        if (latest.left > 0 && isOver && record->isOf(signature) && record->sequence.isWhole(begin)) {
            leftovers[i].permits = end(held, latest.lot);
        }
    }
    return leftovers;
}

/// The keys are compared, since clients can choose another one with the same hash.
void Permits::noteEntries(std::uint64_t store, std::string_view key, std::int64_t entries, std::uint64_t sentAt) {
    const std::uint32_t log = Signature::hashOfLog(key);
    for (Record& record : setOf(log)) {
        if (record.log.load(kRelaxed) != log) {
            continue;
        }
        for (Held& held : record.lots) {
            const std::uint64_t begin = record.sequence.beginReading();
            const std::uint64_t word = held.permits.load(std::memory_order_acquire);
            const bool isGone = LotWord(word).left > 0 && held.grantedAt.load(kRelaxed) < sentAt &&
                                held.endsAt.load(kRelaxed) > sentAt && entries < held.entries.load(kRelaxed) &&
                                record.isOfLog(store, key);
            if (isGone && record.sequence.isWhole(begin)) {
                end(held, LotWord(word).lot);
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
        const auto isLive = [&](const Held& lot) {
            return LotWord(lot.permits.load(kRelaxed)).left > 0 && lot.endsAt.load(kRelaxed) + kAbandonedAfterMs > now;
        };
        const bool hasPermits = std::ranges::any_of(each.lots, isLive);
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
    const auto way = static_cast<std::uint32_t>(oldest - set.data());
    for (std::uint32_t i = 0; i < kLots; i++) {
        Held& held = oldest->lots[i];
        const std::uint32_t before = LotWord(held.permits.load(kRelaxed)).lot;
        held.permits.store(LotWord(nextLot(before == 0 ? way * kLots + i : before), 0).word(),
                           std::memory_order_release);
        held.endsAt.store(0, kRelaxed);
    }
    oldest->log.store(signature.logs().front(), kRelaxed);
    oldest->usage.store(0, kRelaxed);
    oldest->usedAt.store(0, kRelaxed);
    oldest->askedUntil.store(0, kRelaxed);
    oldest->tookMs.store(0, kRelaxed);
    oldest->hash.store(static_cast<std::uint32_t>(signature.hash), kRelaxed);
    oldest->signature.set(signature.text);
    return oldest;
}

}  // namespace sliding_log
