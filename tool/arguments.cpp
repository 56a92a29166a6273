#include "arguments.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "failure.hpp"
#include "near.hpp"
#include "text.hpp"

namespace sliding_log::tool {

void refuseValue(std::string_view option, std::string_view text, std::string_view expected) {
    throw InvalidValue(std::string(option),
                       "has invalid value \"" + printable(text) + "\", expected " + std::string(expected));
}

/// `--option value` or `--option=value`; `--` ends the options.
Arguments::Arguments(std::span<const std::string_view> words, std::span<const Option> known) {
    for (std::size_t i = 0; i < words.size(); i++) {
        const std::string_view word = words[i] == kShortHelp ? kHelpOption.name : words[i];
        if (word == "--") {
            words_.insert(words_.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
            return;
        }
        if (!word.starts_with("-") || word == "-") {
            words_.emplace_back(word);
            continue;
        }
        const std::string_view name = word.substr(0, word.find('='));
        const auto option = std::ranges::find(known, name, &Option::name);
        if (option == known.end()) {
            std::vector<std::string_view> names;
            std::ranges::transform(known, std::back_inserter(names), &Option::name);
            throw UsageError("unknown option \"" + printable(name) + "\"" + didYouMean(name, names));
        }
        std::string value;
        if (option->value.empty()) {
            if (name.size() != word.size()) {
                throw UsageError("\"" + std::string(name) + "\" takes no value");
            }
        } else if (name.size() != word.size()) {
            value = word.substr(name.size() + 1);
        } else if (++i < words.size()) {
            value = words[i];
            if (value == option->longer && i + 1 < words.size()) {
                value.append(" ").append(words[++i]);
            }
        } else {
            throw UsageError("\"" + std::string(name) + "\" requires a value: " + std::string(option->value));
        }
        values_[std::string(name)].push_back(std::move(value));
    }
}

void Arguments::addDefault(std::string_view option, std::vector<std::string> values, Origin origin) {
    if (!has(option)) {
        values_.emplace(option, std::move(values));
        origins_.emplace(option, std::move(origin));
    }
}

const Origin* Arguments::originOf(std::string_view option) const {
    const auto found = origins_.find(option);
    return found == origins_.end() ? nullptr : &found->second;
}

std::string Arguments::text(std::string_view option, std::string_view otherwise) const {
    const auto found = values_.find(option);
    return found == values_.end() ? std::string(otherwise) : found->second.back();
}

std::vector<std::string> Arguments::texts(std::string_view option) const {
    const auto found = values_.find(option);
    return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::int64_t Arguments::count(std::string_view option, std::int64_t otherwise, std::int64_t least,
                              std::int64_t most) const {
    if (!has(option)) {
        return otherwise;
    }
    const std::optional<std::int64_t> number = parseNumber(text(option));
    if (!number || *number < least || *number > most) {
        refuseValue(
            option, text(option),
            "a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", as 500 or 200k");
    }
    return *number;
}

std::int64_t Arguments::time(std::string_view option, std::int64_t otherwiseMs) const {
    if (!has(option)) {
        return otherwiseMs;
    }
    const std::optional<std::int64_t> ms = parseTime(text(option));
    if (!ms || *ms < 1) {
        refuseValue(option, text(option), "a time from 1ms to 366d");
    }
    return *ms;
}

}  // namespace sliding_log::tool
