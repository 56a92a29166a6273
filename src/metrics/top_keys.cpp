#include "metrics/top_keys.hpp"

#include <algorithm>
#include <functional>

namespace sliding_log {

TopKeys::TopKeys(void* memory, std::size_t bytes, std::uint64_t random, pid_t self)
    : self_(static_cast<Sequence::Writer>(self)), random_(random | 1) {
    if (bytes >= sizeof(Header) + sizeof(Set)) {
        header_ = static_cast<Header*>(memory);
        sets_ = reinterpret_cast<Set*>(static_cast<char*>(memory) + sizeof(Header));
        setCount_ = (bytes - sizeof(Header)) / sizeof(Set);
    }
}

void TopKeys::count(std::string_view name, std::size_t hash, unsigned used, std::uint64_t nowMs) {
    if (setCount_ == 0 || name.size() > kLongestName) {
        return;
    }
    Set& set = sets_[(hash >> 1) % setCount_];
    const std::uint64_t mark = hash | 1;  // 0: an empty cell
    std::size_t way = 0;
    std::uint64_t least = ~std::uint64_t{0};
    bool hasCell = false;
    for (std::size_t i = 0; i < kWays; i++) {
        const std::uint64_t count = set.counts[i].load(std::memory_order_relaxed);
        if (set.hashes[i].load(std::memory_order_relaxed) == mark && set.cells[i].name.is(name)) {
            way = i;
            hasCell = true;
            break;
        }
        if (count < least) {
            least = count;
            way = i;
        }
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
    if (!cell.sequence.beginWriting(self_) && !cell.sequence.takeOver(self_)) {
        return;
    }
    set.hashes[way].store(hash, std::memory_order_relaxed);
    cell.base.store(set.counts[way].load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    cell.name.set(name);
    cell.sequence.endWriting();
}

void TopKeys::age(std::uint64_t nowMs) {
    if (setCount_ == 0) {
        return;
    }
    std::uint64_t halvedMs = header_->halvedMs.load(std::memory_order_relaxed);
    const bool isNew = halvedMs == 0;
    if ((!isNew && nowMs - halvedMs < kHalvedEveryMs) || !header_->halvedMs.compare_exchange_strong(halvedMs, nowMs) ||
        isNew) {
        return;
    }
    for (std::size_t i = 0; i < setCount_; i++) {
        for (std::size_t way = 0; way < kWays; way++) {
            Cell& cell = sets_[i].cells[way];
            std::atomic<std::uint64_t>& counter = sets_[i].counts[way];
            if (cell.sequence.takeOver(self_)) {
                sets_[i].hashes[way].store(0, std::memory_order_relaxed);
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
    for (std::size_t i = 0; i < setCount_; i++) {
        for (std::size_t way = 0; way < kWays; way++) {
            const Cell& cell = sets_[i].cells[way];
            const std::uint64_t begin = cell.sequence.beginReading();
            const std::uint64_t count = sets_[i].counts[way].load(std::memory_order_relaxed);
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
