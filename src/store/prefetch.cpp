#include "store/prefetch.hpp"

#include <algorithm>

#include "limit/most_cost.hpp"
#include "limit/number.hpp"

namespace sliding_log {

namespace {

constexpr std::uint64_t kAnyTime = ~std::uint64_t{0};

/// When another call may ask after one that got none. One that asked ahead is not repeated soon: the limit is nearly
/// used up, or Redis does not answer.
std::uint64_t mayAskAgain(const AskedPermits& asked, std::uint64_t now) {
    constexpr std::uint64_t kPauseMs = 50;
    return asked.isAhead() ? now + kPauseMs : now;
}

std::uint64_t lifeOf(const Check& check) {
    return static_cast<std::uint64_t>(check.permitLifeMs);
}

/// The most permits that a call may add.
std::uint32_t mostOf(const Check& check) {
    return static_cast<std::uint32_t>(
        std::min(check.prefetch, mostCost(check.algorithm, check.sample) / std::max<std::int64_t>(check.cost, 1)));
}

/// The entries of a permit are numbered as those of one request with the cost of the whole lot.
std::string nameOfEntry(std::string_view lot, std::int64_t number) {
    std::string name(lot);
    if (number > 1) {
        name.append("~").append(DecimalText(number).view());
    }
    return name;
}

}  // namespace

bool Prefetch::isFor(std::span<const Check> checks) {
    return checks.size() <= Signature::kMostLogs &&
           std::ranges::all_of(checks, [](const Check& check) { return check.prefetch > 1; });
}

/// Good until the next one.
const Signature& Prefetch::signatureOf(const Check& check) {
    latestSignature_.assign(store_, {&check, 1});
    return latestSignature_;
}

bool Prefetch::use(std::span<const Check> checks, std::string_view unique, Waiter& waiter) {
    for (std::size_t i = 0; i < checks.size(); i++) {
        const std::optional<Permit> permit = permits_.use(signatureOf(checks[i]), checks[i], waiter.verdicts[i]);
        if (!permit || permit->hasEnded) {
            if (permit) {
                takeBackEntries(checks[i], *permit);
            }
            while (i > 0) {
                i--;
                giveBack(checks[i], waiter.permits[i]);
            }
            return false;
        }
        waiter.permits[i] = *permit;
    }
    for (std::size_t i = 0; i < checks.size(); i++) {
        if (waiter.permits[i].asksAhead) {
            noteAhead(checks[i], unique);
        }
    }
    waiter.permitted = true;
    return true;
}

/// Many requests of a turn may find that it is time.
void Prefetch::noteAhead(const Check& check, std::string_view unique) {
    const auto isOfIt = [&](const Ahead& each) { return each.check.all().front().key == check.key; };
    if (std::ranges::none_of(ahead_, isOfIt)) {
        ahead_.push_back({CheckCopies(check), LotName(unique)});
    }
}

bool Prefetch::takeAhead(AskedPermits& asked, std::uint64_t now, std::uint64_t timeoutMs) {
    while (!ahead_.empty()) {
        const Ahead ahead = std::move(ahead_.back());
        ahead_.pop_back();
        const Check& check = ahead.check.all().front();
        const Signature& signature = signatureOf(check);
        endLotsOf(check, signature, now);
        asked.clear();
        const std::uint32_t wanted =
            permits_.wantedAhead(signature, now, lifeOf(check), mostOf(check), now + timeoutMs, asked.held);
        if (wanted > 0) {
            asked.sentAt = now;
            asked.permits.push_back(wanted);
            asked.checks.assign(ahead.check.all());
            asked.unique = ahead.name;
            asked.nameAfter(asked.unique.view());
            return true;
        }
    }
    return false;
}

/// Returns what is left of them.
void Prefetch::endLotsOf(const Check& check, const Signature& signature, std::uint64_t by) {
    for (const Leftover& leftover : permits_.endAll(signature, by)) {
        if (leftover.permits > 0) {
            returns_.push_back({CheckCopies(check), leftover});
        }
    }
}

void Prefetch::ask(Batch& batch, std::uint64_t now, std::uint64_t timeoutMs) {
    const std::span<const Check> checks = batch.waiters.front().checks;
    AskedPermits& asked = batch.asked;
    asked.clear();
    asked.sentAt = now;
    if (!isFor(checks)) {
        return;
    }
    for (const Check& check : checks) {
        const Signature& signature = signatureOf(check);
        // of several logs one has no permits, and those of the others are of no use
        endLotsOf(check, signature, checks.size() > 1 ? kAnyTime : now);
        asked.permits.push_back(permits_.wanted(signature, now, lifeOf(check), mostOf(check), now + timeoutMs));
    }
    if (std::ranges::all_of(asked.permits, [](std::uint32_t permits) { return permits == 0; })) {
        asked.permits.clear();
        return;
    }
    asked.checks.assign(checks);
    for (std::size_t i = 0; i < checks.size(); i++) {
        Check whole = checks[i];
        whole.cost *= asked.permits[i];
        batch.workOfLogs += asked.permits[i] > 0 ? workOfRequest(whole) : 0;
    }
}

void Prefetch::sendReturns() {
    for (const Return& each : returns_) {
        takeBack(each.check.all().front(), each.leftover.permits, each.leftover.name.view(), each.leftover.loggedMs);
    }
    returns_.clear();
}

std::uint64_t Prefetch::learn(const AskedPermits& asked, std::span<const Check> checks, BatchReply& reply) {
    const std::uint64_t now = bootTimeMs();
    const bool isAsked = isFor(checks);
    std::uint64_t granted = 0;
    for (std::size_t i = 0; i < checks.size(); i++) {
        const Check& check = checks[i];
        if (check.permitLifeMs == 0) {
            continue;
        }
        if (reply.remaining(i) > 0) {  // else there may be more entries than the limit
            permits_.noteEntries(store_, check.key, reply.entriesBefore(i), asked.sentAt);
        }
        if (!isAsked) {
            continue;
        }
        const Signature& signature = signatureOf(check);
        if (reply.admitted() > 0) {
            permits_.noteAdmitted(signature, now, lifeOf(check), static_cast<std::uint32_t>(reply.admitted()));
        }
        const std::uint64_t loggedMs = static_cast<std::uint64_t>(reply.nowMs()) + lifeOf(check);
        reply.setOwnPermits(i, permits_.noteRemaining(signature, now, loggedMs, reply.remaining(i)));
        const std::uint32_t permits = reply.permits(i);
        if (permits == 0) {
            if (asked.of(i) > 0) {
                permits_.endAsking(signature, mayAskAgain(asked, now));
            }
            continue;
        }
        granted += permits;
        const std::uint64_t endsAt = asked.sentAt + lifeOf(check);
        const std::uint32_t number = permits_.grant(signature,
                                                    {.name = asked.name.view(),
                                                     .permits = permits,
                                                     .loggedMs = loggedMs,
                                                     .entries = permits * check.cost,
                                                     .remaining = reply.remaining(i),
                                                     .resetAt = now + static_cast<std::uint64_t>(reply.resetMs(i)),
                                                     .endsAt = endsAt},
                                                    now, now - asked.sentAt);
        if (number == 0) {
            permits_.endAsking(signature);
            takeBack(check, permits, asked.name.view(), loggedMs);
            continue;
        }
        lots_.push_back({endsAt, number, loggedMs, asked.name, CheckCopies(check)});
        std::push_heap(lots_.begin(), lots_.end());
    }
    return granted;
}

void Prefetch::fail(const AskedPermits& asked) {
    const std::uint64_t again = mayAskAgain(asked, bootTimeMs());
    for (const Check& check : asked.checks.all()) {
        permits_.endAsking(signatureOf(check), again);
    }
}

void Prefetch::giveBack(const Check& check, const Permit& permit) {
    if (!permits_.giveBack(signatureOf(check), check, permit)) {
        takeBackEntries(check, permit);
    }
}

/// Of one permit of a lot.
void Prefetch::takeBackEntries(const Check& check, const Permit& permit) {
    if (!rowOf(check.algorithm).namesEntries) {
        takeBack(check, 1, permit.name.view(), permit.loggedMs);
        return;
    }
    Check entry = check;
    entry.cost = 1;
    for (std::int64_t i = 1; i <= check.cost; i++) {
        takeBack_(entry, i == 1 ? 1 : 0, nameOfEntry(permit.name.view(), (permit.position - 1) * check.cost + i),
                  permit.loggedMs);
    }
}

void Prefetch::takeBack(const Check& check, std::uint32_t permits, std::string_view name, std::uint64_t loggedMs) {
    if (permits > 0) {
        Check whole = check;
        whole.cost *= permits;
        takeBack_(whole, permits, name, loggedMs);
    }
}

void Prefetch::endLots(bool all) {
    const std::uint64_t now = bootTimeMs();
    while (!lots_.empty() && (all || lots_.front().endsAt <= now)) {
        std::pop_heap(lots_.begin(), lots_.end());
        const GrantedLot lot = std::move(lots_.back());
        lots_.pop_back();
        const Check& check = lot.check.all().front();
        takeBack(check, permits_.end(signatureOf(check), lot.number), lot.name.view(), lot.loggedMs);
    }
}

std::optional<std::uint64_t> Prefetch::nextEndMs() const {
    if (lots_.empty()) {
        return std::nullopt;
    }
    const std::uint64_t now = bootTimeMs();
    return lots_.front().endsAt > now ? lots_.front().endsAt - now : 0;
}

}  // namespace sliding_log
