// The words of a log's options in a call, in the order in which they are written. OptionsText writes them, the native
// module reads them; lua/decide.lua explains them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sliding_log {

enum class Option : std::uint8_t {
    Ids,
    Cost,
    CountAll,
    Delay,
    Ahead,
    Block,
    Escalates,
    Settle,
    Ended,
    Permits,
    Held,
    Override,
    Told,
    Allow,
    Deny,
    Burst,
    Sample
};

/// The last argument of a plain call of two limits, in place of options.
inline constexpr std::string_view kPlainTwo = "two";

struct OptionRow {
    Option option;
    std::string_view word;  // a number follows if it ends with '='

    /// `asked`: the word of a call, with its number.
    constexpr bool isIn(std::string_view asked) const {
        return word.ends_with('=') ? asked.substr(0, asked.find('=')) == word.substr(0, word.size() - 1)
                                   : asked == word;
    }
};

/// Indexed by Option.
inline constexpr std::array kOptions = {OptionRow{Option::Ids, "ids"},
                                        OptionRow{Option::Cost, "cost="},
                                        OptionRow{Option::CountAll, "count=all"},
                                        OptionRow{Option::Delay, "delay="},
                                        OptionRow{Option::Ahead, "ahead="},
                                        OptionRow{Option::Block, "block="},
                                        OptionRow{Option::Escalates, "escalates"},
                                        OptionRow{Option::Settle, "settle="},
                                        OptionRow{Option::Ended, "ended="},
                                        OptionRow{Option::Permits, "permits="},
                                        OptionRow{Option::Held, "held="},
                                        OptionRow{Option::Override, "override"},
                                        OptionRow{Option::Told, "told"},
                                        OptionRow{Option::Allow, "allow="},
                                        OptionRow{Option::Deny, "deny="},
                                        OptionRow{Option::Burst, "burst="},
                                        OptionRow{Option::Sample, "sample="}};

constexpr std::string_view wordOf(Option option) {
    return kOptions[static_cast<std::size_t>(option)].word;
}

static_assert(std::ranges::all_of(kOptions, [](const OptionRow& row) {
    return &row == &kOptions[static_cast<std::size_t>(row.option)];
}));

}  // namespace sliding_log
