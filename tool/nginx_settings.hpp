// What the tool needs of nginx's configuration: the stores, and the settings of the limits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "limit/algorithm.hpp"
#include "limit/key.hpp"
#include "limit/store_directive.hpp"
#include "nginx_conf.hpp"

namespace sliding_log::tool {

/// A number that several directives of one NAME may give.
class SharedNumber {
  public:
    void add(std::string_view text) { texts_.emplace(text); }

    /// nullopt: it is not given, it is a variable, or the directives differ.
    std::optional<std::int64_t> value() const;

  private:
    std::set<std::string, std::less<>> texts_;
};

/// The common settings of all sliding_log_limit directives of one NAME.
struct NginxLimit {
    Secrecy secrecy = Secrecy::Open;
    std::string algorithm = "log";
    std::string store;                     // as given; empty: the first one, or local if there is none
    std::optional<std::int64_t> windowMs;  // the lease; algorithm=quota: the longest length of the period
    std::int64_t sample = kDefaultSample;
    SharedNumber limit;
    SharedNumber burst;
    bool blocks = false;     // a directive has block=
    bool escalates = false;  // with several times
    bool obeysKeys = false;  // override=on
    bool obeysName = false;  // override=on, or override=name

    /// Each request has the store that a variable names.
    bool hasHomes() const { return store.find('$') != std::string::npos; }

    /// All values that are given for a parameter, by its name; of one that all directives of a NAME share, one.
    std::map<std::string, std::set<std::string>, std::less<>> given;
};

/// One sliding_log_redis block.
struct NginxStore {
    std::string name;
    std::vector<Directive> directives;

    /// The directive with its position and words; nullptr if the block does not have it.
    const Directive* find(StoreDirective directive) const;
};

class NginxSettings {
  public:
    /// Throws UsageError.
    explicit NginxSettings(std::string file);

    const std::string& file() const { return file_; }
    const std::vector<NginxStore>& stores() const { return stores_; }
    const std::map<std::string, NginxLimit, std::less<>>& limits() const { return limits_; }

    /// nullptr: there is none of this name.
    const NginxStore* storeNamed(std::string_view name) const;
    const NginxLimit* limitNamed(std::string_view name) const;

    /// The store of the limit's logs: its name, `local`, or the variable that names it.
    std::string_view storeOf(const NginxLimit& limit) const;

    /// False: this store has no logs of the limit.
    bool mayBeIn(const NginxLimit& limit, std::string_view store) const {
        return limit.hasHomes() || storeOf(limit) == store;
    }

  private:
    void take(const Directive& directive);
    void takeLimit(const Words& words);

    std::string file_;
    std::vector<NginxStore> stores_;
    std::map<std::string, NginxLimit, std::less<>> limits_;
};

}  // namespace sliding_log::tool
