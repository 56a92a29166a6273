#include "store/denials.hpp"

#include <algorithm>
#include <cstring>

namespace sliding_log {

namespace {

constexpr std::uint64_t kNeverAt = ~std::uint64_t{0};

std::int64_t left(std::uint64_t at, std::uint64_t nowMs) {
    return at > nowMs ? static_cast<std::int64_t>(at - nowMs) : 0;
}

}  // namespace

Denials::Denials(void* memory, std::size_t bytes)
    : slots_(static_cast<Slot*>(memory)), sets_(bytes / (kSlotBytes * kWays)) {}

bool Denials::find(std::string_view signature, std::size_t hash, std::uint64_t nowMs,
                   std::span<Verdict> verdicts) const {
    for (const Slot& slot : setOf(hash)) {
        const std::uint32_t before = slot.sequence.load(std::memory_order_acquire);
        if (slot.hash != hash || (before & 1) != 0 || slot.until <= nowMs || slot.logs != verdicts.size() ||
            std::string_view(slot.signature, std::min<std::size_t>(slot.length, sizeof slot.signature)) != signature) {
            continue;
        }
        for (std::size_t i = 0; i < verdicts.size(); i++) {
            const Entry& entry = slot.entries[i];
            verdicts[i].remaining = entry.remaining;
            verdicts[i].resetMs = left(entry.resetAt, nowMs);
            verdicts[i].retryMs = entry.retryAt == kNeverAt ? Verdict::kNever : left(entry.retryAt, nowMs);
        }
        std::atomic_thread_fence(std::memory_order_acquire);
        if (slot.sequence.load(std::memory_order_relaxed) == before) {
            return true;
        }
    }
    return false;
}

void Denials::publish(std::string_view signature, std::size_t hash, std::uint64_t askedMs,
                      std::span<const Verdict> verdicts) {
    if (verdicts.size() > kMostLogs || signature.size() > sizeof(Slot::signature)) {
        return;
    }
    std::uint64_t until = 0;
    for (const Verdict& verdict : verdicts) {
        // of a limit of 0 the denial never ends; it is asked again when its log changes
        const std::int64_t ms = verdict.retryMs == Verdict::kNever ? verdict.resetMs : verdict.retryMs;
        // the server's milliseconds are cut off, so the slot may free up to 1 ms earlier than they say
        until = std::max(until, askedMs + static_cast<std::uint64_t>(ms > 0 ? ms - 1 : 0));
    }
    const std::span<Slot> set = setOf(hash);
    Slot* taken = slotOf(signature, hash);
    Slot& slot = taken != nullptr ? *taken : *std::ranges::min_element(set, {}, &Slot::until);
    if (!beginWriting(slot)) {
        return;
    }
    slot.length = static_cast<std::uint16_t>(signature.size());
    slot.logs = static_cast<std::uint16_t>(verdicts.size());
    slot.hash = hash;
    slot.until = until;
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const Verdict& verdict = verdicts[i];
        const auto at = [&](std::int64_t ms) { return askedMs + static_cast<std::uint64_t>(ms); };
        slot.entries[i] = {verdict.remaining, at(verdict.resetMs),
                           verdict.retryMs == Verdict::kNever ? kNeverAt
                           : verdict.hasRoom()                ? 0
                                                              : at(verdict.retryMs)};
    }
    std::memcpy(slot.signature, signature.data(), signature.size());
    endWriting(slot);
}

void Denials::forget(std::string_view signature, std::size_t hash) {
    if (Slot* slot = slotOf(signature, hash); slot != nullptr && beginWriting(*slot)) {
        slot->until = 0;
        endWriting(*slot);
    }
}

Denials::Slot* Denials::slotOf(std::string_view signature, std::size_t hash) const {
    const std::span<Slot> set = setOf(hash);
    const auto found = std::ranges::find_if(set, [&](const Slot& slot) {
        return slot.hash == hash &&
               std::string_view(slot.signature, std::min<std::size_t>(slot.length, sizeof slot.signature)) == signature;
    });
    return found == set.end() ? nullptr : &*found;
}

/// False when another worker is writing: it is as well informed.
bool Denials::beginWriting(Slot& slot) {
    std::uint32_t before = slot.sequence.load(std::memory_order_relaxed);
    if ((before & 1) != 0 || !slot.sequence.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) {
        return false;
    }
    std::atomic_thread_fence(std::memory_order_release);
    return true;
}

void Denials::endWriting(Slot& slot) {
    slot.sequence.fetch_add(1, std::memory_order_release);
}

}  // namespace sliding_log
