#include "keyspace.hpp"

#include <algorithm>
#include <iterator>

namespace simulate {

namespace {

// what Redis 7.0 takes, roughly: a dictEntry, an sds and an object for each key, and more for one that expires
constexpr std::size_t kKeyBytes = 24 + 8 + 16 + 9;
constexpr std::size_t kExpiryBytes = 24 + 8;

constexpr std::size_t kLongestListpack = 128;
constexpr std::size_t kListpackBytes = 7;
constexpr std::size_t kListpackEntryBytes = 2 + 2 + 9;
constexpr std::size_t kSkiplistEntryBytes = 24 + 9 + 40 + 8 + 8;
constexpr std::size_t kFieldBytes = 2 + 2;

}  // namespace

// ---- ZSET

std::optional<double> Zset::scoreOf(const std::string& member) const {
    const auto found = scores_.find(member);
    return found == scores_.end() ? std::nullopt : std::optional(found->second);
}

void Zset::set(const std::string& member, double score) {
    const auto [at, isNew] = scores_.try_emplace(member, score);
    if (!isNew) {
        const std::size_t rank = rankOf(at->second, member);
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(rank));
        at->second = score;
    } else {
        memberBytes_ += member.size();
    }
    const bool isLast = entries_.empty() || entries_.back().score < score ||
                        (entries_.back().score == score && entries_.back().member < member);
    const std::size_t rank = isLast ? entries_.size() : rankOf(score, member);
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(rank), Entry{score, member});
}

bool Zset::remove(const std::string& member) {
    const auto found = scores_.find(member);
    if (found == scores_.end()) {
        return false;
    }
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(rankOf(found->second, member)));
    memberBytes_ -= member.size();
    scores_.erase(found);
    return true;
}

void Zset::removeRanks(std::size_t from, std::size_t to) {
    const auto first = entries_.begin() + static_cast<std::ptrdiff_t>(from);
    const auto last = entries_.begin() + static_cast<std::ptrdiff_t>(to);
    for (auto at = first; at != last; ++at) {
        memberBytes_ -= at->member.size();
        scores_.erase(at->member);
    }
    entries_.erase(first, last);
}

std::size_t Zset::rankOf(double score, bool isAbove) const {
    const auto at = isAbove ? std::ranges::upper_bound(entries_, score, {}, &Entry::score)
                            : std::ranges::lower_bound(entries_, score, {}, &Entry::score);
    return static_cast<std::size_t>(at - entries_.begin());
}

std::size_t Zset::rankOf(double score, std::string_view member) const {
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), std::pair(score, member),
                                     [](const Entry& entry, const std::pair<double, std::string_view>& wanted) {
                                         return entry.score != wanted.first ? entry.score < wanted.first
                                                                            : entry.member < wanted.second;
                                     });
    return static_cast<std::size_t>(at - entries_.begin());
}

std::size_t Zset::bytes() const {
    const std::size_t each = size() <= kLongestListpack ? kListpackEntryBytes : kSkiplistEntryBytes;
    return kListpackBytes + memberBytes_ + size() * each;
}

// ---- HASH

const std::string* Hash::get(std::string_view field) const {
    const auto found = std::ranges::find(fields_, field, &Field::first);
    return found == fields_.end() ? nullptr : &found->second;
}

bool Hash::set(std::string_view field, std::string_view value) {
    const auto found = std::ranges::find(fields_, field, &Field::first);
    if (found != fields_.end()) {
        found->second = value;
        return false;
    }
    fields_.emplace_back(field, value);
    return true;
}

bool Hash::remove(std::string_view field) {
    const auto found = std::ranges::find(fields_, field, &Field::first);
    if (found == fields_.end()) {
        return false;
    }
    fields_.erase(found);
    return true;
}

std::size_t Hash::bytes() const {
    std::size_t bytes = kListpackBytes;
    for (const auto& [field, value] : fields_) {
        bytes += field.size() + value.size() + kFieldBytes;
    }
    return bytes;
}

// ---- keys

Keyspace::~Keyspace() = default;

Keyspace::Key* Keyspace::find(std::string_view name) {
    const auto found = keys_.find(name);
    if (found == keys_.end()) {
        return nullptr;
    }
    uses_.splice(uses_.begin(), uses_, found->second.use);
    return &found->second;
}

const Keyspace::Key* Keyspace::find(std::string_view name) const {
    const auto found = keys_.find(name);
    return found == keys_.end() ? nullptr : &found->second;
}

Keyspace::Key& Keyspace::add(std::string_view name, Value value) {
    const auto at = keys_.try_emplace(std::string(name)).first;
    Key& key = at->second;
    key.value = std::move(value);
    key.use = uses_.insert(uses_.begin(), &at->first);
    key.bytes = 0;
    changed(name, key);
    return key;
}

bool Keyspace::remove(std::string_view name) {
    const auto found = keys_.find(name);
    if (found == keys_.end()) {
        return false;
    }
    remove(found);
    return true;
}

void Keyspace::remove(Keys::iterator at) {
    unlist(at->second);
    uses_.erase(at->second.use);
    bytes_ -= at->second.bytes;
    keys_.erase(at);
}

void Keyspace::clear() {
    uses_.clear();
    expiries_.clear();
    keys_.clear();
    bytes_ = 0;
}

void Keyspace::changed(std::string_view name, Key& key) {
    const std::size_t bytes = bytesOf(name, key);
    bytes_ += bytes - key.bytes;
    key.bytes = bytes;
}

void Keyspace::unlist(Key& key) {
    if (key.isListed) {
        expiries_.erase(key.expires);
        key.isListed = false;
    }
}

void Keyspace::setExpiry(std::string_view name, std::int64_t ms) {
    const auto found = keys_.find(name);
    setExpiry(found->second, found->first, ms);
}

/// A key that lives longer than before stays where it is listed, and is looked at then.
void Keyspace::setExpiry(Key& key, const std::string& name, std::int64_t ms) {
    key.expiry = ms;
    if (ms == kNoExpiry) {
        unlist(key);
    } else if (!key.isListed || ms < key.expires->first) {
        unlist(key);
        key.expires = expiries_.emplace(ms, &name);
        key.isListed = true;
    }
    changed(name, key);
}

const std::string* Keyspace::nextToExpire() {
    while (!expiries_.empty()) {
        const auto first = expiries_.begin();
        const std::string* name = first->second;
        Key& key = keys_.find(*name)->second;
        if (key.expiry == first->first) {
            return name;
        }
        unlist(key);
        setExpiry(key, *name, key.expiry);
    }
    return nullptr;
}

const std::string* Keyspace::expired(std::int64_t now) {
    if (expiries_.empty() || expiries_.begin()->first >= now) {
        return nullptr;
    }
    const std::string* name = nextToExpire();
    return name != nullptr && expiries_.begin()->first < now ? name : nullptr;
}

const std::string* Keyspace::leastUsed(bool isVolatile) const {
    for (auto at = uses_.rbegin(); at != uses_.rend(); ++at) {
        if (!isVolatile || keys_.find(**at)->second.expiry != kNoExpiry) {
            return *at;
        }
    }
    return nullptr;
}

/// The order of use is that of the names then.
void Keyspace::copyFrom(const Keyspace& other) {
    clear();
    for (const auto& [name, key] : other.keys_) {
        add(name, key.value);
        if (key.expiry != kNoExpiry) {
            setExpiry(name, key.expiry);
        }
    }
}

std::size_t Keyspace::bytesOf(std::string_view name, const Key& key) {
    std::size_t value = 0;
    if (const auto* zset = std::get_if<Zset>(&key.value)) {
        value = zset->bytes();
    } else if (const auto* hash = std::get_if<Hash>(&key.value)) {
        value = hash->bytes();
    } else if (const auto* list = std::get_if<List>(&key.value)) {
        for (const std::string& element : *list) {
            value += element.size() + kFieldBytes;
        }
    } else {
        value = std::get<std::string>(key.value).size() + 9;
    }
    return kKeyBytes + name.size() + value + (key.expiry == kNoExpiry ? 0 : kExpiryBytes);
}

}  // namespace simulate
