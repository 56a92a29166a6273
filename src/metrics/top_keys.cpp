#include "metrics/top_keys.hpp"

#include <algorithm>
#include <functional>

namespace sliding_log {

TopKeys::TopKeys(void* memory, std::size_t bytes, std::uint64_t random, pid_t self)
    : self_(static_cast<Sequence::Writer>(self)), random_(random | 1) {
    if (bytes >= sizeof(Header) + sizeof(Set)) {
        header_ = static_cast<Header*>(memory);
        sets_ = Sets<Set>(static_cast<char*>(memory) + sizeof(Header), bytes - sizeof(Header));
    }
}

void TopKeys::count(std::string_view name, std::size_t hash, unsigned used, std::uint64_t nowMs) {
    if (sets_.areNone() || name.size() > kLongestName) {
        return;
    }
    Set& set = sets_.of(hash >> 1);
    const std::uint64_t mark = hash | 1;  // 0: an empty cell
    std::size_t way = 0;
    while (way < kWays && !(set.hashes[way].load(std::memory_order_relaxed) == mark && set.cells[way].name.is(name))) {
        way++;
    }
    const bool hasCell = way < kWays;
    if (!hasCell) {
        const auto countOf = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
        way = static_cast<std::size_t>(victimOf(set.counts, countOf)->way - set.counts);
    }
    const std::uint64_t before = set.counts[way].fetch_add(1, std::memory_order_relaxed);
    if (!hasCell) {
        if (!oneIn(before + 1)) {
            return;
        }
        replace(set, way, name, mark);
    }
    set.cells[way].used.store(used, std::memory_order_relaxed);
    set.cells[way].seenMs.store(nowMs, std::memory_order_relaxed);
}

void TopKeys::replace(Set& set, std::size_t way, std::string_view name, std::uint64_t hash) {
    Cell& cell = set.cells[way];
    const Writing writing(cell.sequence, self_);
    if (!writing) {
        return;
    }
    set.hashes[way].store(hash, std::memory_order_relaxed);
    cell.base.store(set.counts[way].load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    cell.name.set(name);
}

void TopKeys::age(std::uint64_t nowMs) {
    if (sets_.areNone()) {
        return;
    }
    std::uint64_t halvedMs = header_->halvedMs.load(std::memory_order_relaxed);
    const bool isNew = halvedMs == 0;
    if ((!isNew && nowMs - halvedMs < kHalvedEveryMs) || !header_->halvedMs.compare_exchange_strong(halvedMs, nowMs) ||
        isNew) {
        return;
    }
    for (Set& set : sets_.all()) {
        for (std::size_t way = 0; way < kWays; way++) {
            Cell& cell = set.cells[way];
            Counter& counter = set.counts[way];
            if (cell.sequence.takeOver(self_)) {
                set.hashes[way].store(0, std::memory_order_relaxed);
                counter.store(0, std::memory_order_relaxed);
                cell.base.store(0, std::memory_order_relaxed);
                cell.name.set({});
                cell.sequence.endWriting();
                continue;
            }
            if (counter.load(std::memory_order_relaxed) == 0 || !cell.sequence.beginWriting(self_)) {
                continue;
            }
            // read while nobody else halves: this process may have been stopped in between
            const std::uint64_t count = counter.load(std::memory_order_relaxed);
            const std::uint64_t base = cell.base.load(std::memory_order_relaxed);
            counter.fetch_sub(count - count / 2, std::memory_order_relaxed);
            cell.base.store(base - base / 2, std::memory_order_relaxed);
            cell.sequence.endWriting();
        }
    }
}

std::vector<TopKeys::Key> TopKeys::list() const {
    std::vector<Key> keys;
    for (Set& set : sets_.all()) {
        for (std::size_t way = 0; way < kWays; way++) {
            const Cell& cell = set.cells[way];
            const std::uint64_t begin = cell.sequence.beginReading();
            const std::uint64_t count = set.counts[way].load(std::memory_order_relaxed);
            const std::uint64_t base = cell.base.load(std::memory_order_relaxed);
            if (count <= base) {
                continue;
            }
            const std::string name = cell.name.get();
            const unsigned used = cell.used.load(std::memory_order_relaxed);
            const std::uint64_t seenMs = cell.seenMs.load(std::memory_order_relaxed);
            const std::size_t colon = name.find(':');  // names of limits contain none
            if (cell.sequence.isWhole(begin) && colon != std::string::npos) {
                keys.push_back({name.substr(0, colon), name.substr(colon + 2), count - base, used, seenMs});
            }
        }
    }
    std::ranges::sort(keys, std::ranges::greater(), &Key::requests);
    return keys;
}

/// True once in `count` times, by xorshift64: this needs to be fair, not secret.
bool TopKeys::oneIn(std::uint64_t count) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ % count == 0;
}

}  // namespace sliding_log
