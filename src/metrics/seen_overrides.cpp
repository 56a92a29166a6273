#include "metrics/seen_overrides.hpp"

#include <algorithm>
#include <functional>
#include <ranges>

namespace sliding_log {

void SeenOverrides::note(std::string_view name, std::size_t hash, const Override& override, std::uint64_t nowMs) {
    if (sets_.areNone() || name.size() > kLongestName) {
        return;
    }
    Set& set = sets_.of(hash >> 1);
    const std::uint64_t mark = hash | 1;
    const auto ways = std::views::iota(std::size_t{0}, kWays);
    auto way = std::ranges::find_if(
        ways, [&](std::size_t i) { return set.hashes[i].load(kRelaxed) == mark && set.cells[i].name.is(name); });
    if (way == ways.end() && !override.isInForce()) {
        return;
    }
    if (way == ways.end()) {
        const auto metAt = [&](std::size_t i) {
            return set.hashes[i].load(kRelaxed) == 0 ? 0 : set.cells[i].seenMs.load(kRelaxed);
        };
        way = victimOf(ways, metAt)->way;
    }
    Cell& cell = set.cells[*way];
    const Writing writing(cell.sequence, self_);
    if (!writing) {
        return;
    }
    set.hashes[*way].store(override.isInForce() ? mark : 0, kRelaxed);
    cell.what.store(static_cast<std::uint32_t>(override.what), kRelaxed);
    cell.limit.store(override.limit, kRelaxed);
    cell.untilMs.store(override.untilMs, kRelaxed);
    cell.seenMs.store(nowMs, kRelaxed);
    cell.name.set(name);
}

std::vector<SeenOverrides::Seen> SeenOverrides::list(std::uint64_t nowMs, std::int64_t wallMs) const {
    std::vector<Seen> all;
    for (const Set& set : sets_.all()) {
        for (std::size_t way = 0; way < kWays; way++) {
            const Cell& cell = set.cells[way];
            const std::uint64_t begin = cell.sequence.beginReading();
            if (set.hashes[way].load(kRelaxed) == 0) {
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
