// What the tool takes of nginx's configuration: the stores, and what the limits are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "limit/key.hpp"
#include "nginx_conf.hpp"

namespace sliding_log::tool {

/// A number that several places of one NAME may give.
class SharedNumber {
  public:
    void add(std::string_view text) { texts_.emplace(text); }

    /// nullopt: none is given, it is a variable, or the places differ.
    std::optional<std::int64_t> value() const;

  private:
    std::set<std::string, std::less<>> texts_;
};

/// All sliding_log_limit of one NAME.
struct NginxLimit {
    Secrecy secrecy = Secrecy::Open;
    std::string algorithm = "log";
    std::string store;  // empty: the first, or local where there is none
    std::optional<std::int64_t> windowMs;
    std::int64_t sample = 10;
    SharedNumber limit;
    SharedNumber burst;
    bool blocks = false;  // block= is given somewhere
};

/// One sliding_log_redis block.
struct NginxStore {
    std::string name;
    std::vector<Directive> directives;

    /// The directive's place and words; nullptr where the block lacks it.
    const Directive* find(std::string_view directive) const;
};

class NginxSettings {
  public:
    /// Throws UsageError.
    explicit NginxSettings(std::string file);

    const std::string& file() const { return file_; }
    const std::vector<NginxStore>& stores() const { return stores_; }
    const std::map<std::string, NginxLimit, std::less<>>& limits() const { return limits_; }

    /// nullptr: there is none of that name.
    const NginxStore* storeNamed(std::string_view name) const;
    const NginxLimit* limitNamed(std::string_view name) const;

    /// Where the limit's logs are: a store's name, or `local`.
    std::string_view storeOf(const NginxLimit& limit) const;

  private:
    void take(const Directive& directive);
    void takeLimit(const Words& words);

    std::string file_;
    std::vector<NginxStore> stores_;
    std::map<std::string, NginxLimit, std::less<>> limits_;
};

}  // namespace sliding_log::tool
