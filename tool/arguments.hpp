// The command line: which options there are, what was given, and what is wrong with it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sliding_log::tool {

struct Option {
    std::string_view name;   // with its dashes
    std::string_view value;  // what --help calls it; empty: a switch
    std::string_view help;
    std::string_view longer = {};  // a value that another word belongs to, one blank between them
};

/// The options given, each of them known, and the other words in their order. Getters throw UsageError in the shape
/// `"--option" has invalid value "text", expected ...`.
class Arguments {
  public:
    Arguments(std::span<const std::string_view> words, std::span<const Option> known);

    const std::vector<std::string>& words() const { return words_; }

    bool has(std::string_view option) const { return values_.contains(option); }
    std::string text(std::string_view option, std::string_view otherwise = {}) const;
    std::vector<std::string> texts(std::string_view option) const;
    std::int64_t count(std::string_view option, std::int64_t otherwise, std::int64_t least, std::int64_t most) const;
    std::int64_t time(std::string_view option, std::int64_t otherwiseMs) const;

  private:
    std::map<std::string, std::vector<std::string>, std::less<>> values_;
    std::vector<std::string> words_;
};

[[noreturn]] void refuseValue(std::string_view option, std::string_view text, std::string_view expected);

}  // namespace sliding_log::tool
