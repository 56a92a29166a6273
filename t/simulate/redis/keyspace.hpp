// The keys of a simulated Redis: strings, ZSETs and HASHes that may expire, and the memory that they take. Keys are in
// the order of their names, members of a ZSET in that of scores and names, fields of a HASH in that of their insertion,
// as in a listpack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace simulate {

class Zset {
  public:
    struct Entry {
        double score;
        std::string member;
    };

    std::size_t size() const { return entries_.size(); }
    const Entry& at(std::size_t rank) const { return entries_[rank]; }
    std::optional<double> scoreOf(const std::string& member) const;

    /// Adds the member, or gives it another score.
    void set(const std::string& member, double score);
    bool remove(const std::string& member);
    void removeRanks(std::size_t from, std::size_t to);  // from <= rank < to

    /// The rank of the first entry with at least this score, or, if `isAbove`, with more.
    std::size_t rankOf(double score, bool isAbove) const;

    std::size_t bytes() const;

  private:
    std::size_t rankOf(double score, std::string_view member) const;

    std::deque<Entry> entries_;
    std::unordered_map<std::string, double> scores_;  // only looked up
    std::size_t memberBytes_ = 0;
};

class Hash {
  public:
    using Field = std::pair<std::string, std::string>;

    std::size_t size() const { return fields_.size(); }
    const std::vector<Field>& fields() const { return fields_; }
    const std::string* get(std::string_view field) const;
    bool set(std::string_view field, std::string_view value);  // true if the field is new
    bool remove(std::string_view field);
    std::size_t bytes() const;

  private:
    std::vector<Field> fields_;
};

/// No log is one: it is what a key of a wrong type may be.
using List = std::vector<std::string>;

using Value = std::variant<std::string, Zset, Hash, List>;

class Keyspace {
  public:
    static constexpr std::int64_t kNoExpiry = -1;

    struct Key {
        Value value;
        std::int64_t expiry = kNoExpiry;  // ms

      private:
        friend class Keyspace;
        std::size_t bytes = 0;
        std::list<const std::string*>::iterator use;
        std::multimap<std::int64_t, const std::string*>::iterator expires;  // there is one if `isListed`
        bool isListed = false;
    };

    Keyspace() = default;
    Keyspace(const Keyspace&) = delete;
    Keyspace& operator=(const Keyspace&) = delete;
    ~Keyspace();

    /// nullptr: there is none. It may have expired.
    Key* find(std::string_view name);
    const Key* find(std::string_view name) const;

    /// Adds a key that is not there.
    Key& add(std::string_view name, Value value);
    bool remove(std::string_view name);
    void clear();

    /// To be called when its value has changed.
    void changed(std::string_view name, Key& key);
    void setExpiry(Key& key, const std::string& name, std::int64_t ms);
    void setExpiry(std::string_view name, std::int64_t ms);

    /// The name of a key that has expired at that time, of those that did so first; nullptr: there is none.
    const std::string* expired(std::int64_t now);

    /// The key that was used least recently; of those that expire, if `isVolatile`. nullptr: there is none.
    const std::string* leastUsed(bool isVolatile) const;
    /// The key that expires first.
    const std::string* nextToExpire();

    std::size_t size() const { return keys_.size(); }
    std::size_t bytes() const { return bytes_; }

    using Keys = std::map<std::string, Key, std::less<>>;
    const Keys& keys() const { return keys_; }

    void copyFrom(const Keyspace& other);

    static std::size_t bytesOf(std::string_view name, const Key& key);

  private:
    void unlist(Key& key);
    void remove(Keys::iterator at);

    Keys keys_;
    std::list<const std::string*> uses_;                        // the latest first
    std::multimap<std::int64_t, const std::string*> expiries_;  // no later than that of the key
    std::size_t bytes_ = 0;
};

}  // namespace simulate
