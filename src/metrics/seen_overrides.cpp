#include "metrics/seen_overrides.hpp"

#include <algorithm>
#include <functional>

namespace sliding_log {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

void SeenOverrides::note(std::string_view name, std::size_t hash, const Override& override, std::uint64_t nowMs) {
    if (setCount_ == 0 || name.size() > kLongestName) {
        return;
    }
    Set& set = sets_[(hash >> 1) % setCount_];
    const std::uint64_t mark = hash | 1;
    std::size_t way = kWays;
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < kWays; i++) {
        const std::uint64_t found = set.hashes[i].load(kRelaxed);
        if (found == mark && set.cells[i].name.is(name)) {
            way = i;
            break;
        }
        const auto metAt = [&](std::size_t of) {
            return set.hashes[of].load(kRelaxed) == 0 ? 0 : set.cells[of].seenMs.load(kRelaxed);
        };
        oldest = override.isInForce() && metAt(i) < metAt(oldest) ? i : oldest;
    }
    if (way == kWays && !override.isInForce()) {
        return;
    }
    const std::size_t at = way == kWays ? oldest : way;
    Cell& cell = set.cells[at];
    if (!cell.sequence.beginWriting(self_) && !cell.sequence.takeOver(self_)) {
        return;
    }
    set.hashes[at].store(override.isInForce() ? mark : 0, kRelaxed);
    cell.what.store(static_cast<std::uint32_t>(override.what), kRelaxed);
    cell.limit.store(override.limit, kRelaxed);
    cell.untilMs.store(override.untilMs, kRelaxed);
    cell.seenMs.store(nowMs, kRelaxed);
    cell.name.set(name);
    cell.sequence.endWriting();
}

std::vector<SeenOverrides::Seen> SeenOverrides::list(std::uint64_t nowMs, std::int64_t wallMs) const {
    std::vector<Seen> all;
    for (std::size_t i = 0; i < setCount_; i++) {
        for (std::size_t way = 0; way < kWays; way++) {
            const Cell& cell = sets_[i].cells[way];
            const std::uint64_t begin = cell.sequence.beginReading();
            if (sets_[i].hashes[way].load(kRelaxed) == 0) {
                continue;
            }
            const Override override{static_cast<Override::What>(cell.what.load(kRelaxed)), cell.limit.load(kRelaxed),
                                    cell.untilMs.load(kRelaxed)};
            const std::uint64_t seenMs = cell.seenMs.load(kRelaxed);
            const std::string name = cell.name.get();
            const std::size_t colon = name.find(':');  // names of limits contain none
            const bool isOver = override.untilMs > 0 && override.untilMs <= wallMs;
            if (cell.sequence.isWhole(begin) && colon != std::string::npos && !isOver &&
                nowMs - std::min(seenMs, nowMs) < kForgottenAfterMs) {
                all.push_back({name.substr(0, colon), name.substr(colon + 2), override, seenMs});
            }
        }
    }
    std::ranges::sort(all, std::ranges::greater(), &Seen::seenMs);
    return all;
}

}  // namespace sliding_log
