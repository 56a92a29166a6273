// The command line: which options exist, which were given, and what is wrong with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "place.hpp"

namespace sliding_log::tool {

struct Option {
    std::string_view name;   // with its dashes
    std::string_view value;  // its name in --help; empty: a switch
    std::string_view help;
    std::string_view longer = {};  // a value that is followed by another word, after one blank
    bool isRepeatable = false;
};

inline constexpr Option kHelpOption{"--help", "", "this help; also -h, and help before a command"};
inline constexpr std::string_view kShortHelp = "-h";

/// The position of a default, and its name there.
struct Origin {
    Place place;
    std::string word;
};

/// The given options, all of them known, and the other words in their order. Getters throw InvalidValue.
class Arguments {
  public:
    Arguments(std::span<const std::string_view> words, std::span<const Option> known);

    /// Adds a value from a file for an option that has no value yet.
    void addDefault(std::string_view option, std::vector<std::string> values, Origin origin);

    const std::vector<std::string>& words() const { return words_; }

    bool has(std::string_view option) const { return values_.contains(option); }

    /// False for a default from a file.
    bool isOnCommandLine(std::string_view option) const { return has(option) && !origins_.contains(option); }

    /// The file and line of a default; nullptr for an option on the command line.
    const Origin* originOf(std::string_view option) const;

    std::string text(std::string_view option, std::string_view otherwise = {}) const;
    std::vector<std::string> texts(std::string_view option) const;
    /// A whole number, which may end in k, m or g.
    std::int64_t count(std::string_view option, std::int64_t otherwise, std::int64_t least, std::int64_t most) const;
    std::int64_t time(std::string_view option, std::int64_t otherwiseMs) const;

  private:
    std::map<std::string, std::vector<std::string>, std::less<>> values_;
    std::map<std::string, Origin, std::less<>> origins_;
    std::vector<std::string> words_;
};

[[noreturn]] void refuseValue(std::string_view option, std::string_view text, std::string_view expected);

}  // namespace sliding_log::tool
