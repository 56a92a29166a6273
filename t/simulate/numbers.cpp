#include "numbers.hpp"

#include <algorithm>
#include <charconv>

namespace simulate {

std::optional<Numbers> Numbers::read(std::string_view text) {
    std::vector<std::uint64_t> numbers;
    const char* at = text.data();
    const char* const end = at + text.size();
    const auto number = [&](std::uint64_t& value) {
        const auto [after, error] = std::from_chars(at, end, value);
        at = after;
        return error == std::errc();
    };
    while (at != end) {
        std::uint64_t first = 0;
        if (!number(first)) {
            return std::nullopt;
        }
        std::uint64_t last = first;
        if (at != end && *at == '-' && (++at, !number(last))) {
            return std::nullopt;
        }
        for (std::uint64_t each = first; each <= last; each++) {
            numbers.push_back(each);
        }
        if (at != end && *at++ != ',') {
            return std::nullopt;
        }
    }
    std::ranges::sort(numbers);
    return Numbers(std::move(numbers));
}

bool Numbers::contains(std::uint64_t number) const {
    return std::ranges::binary_search(sorted_, number);
}

std::string Numbers::text() const {
    std::string text;
    for (std::size_t i = 0; i < sorted_.size(); i++) {
        const std::size_t first = i;
        while (i + 1 < sorted_.size() && sorted_[i + 1] == sorted_[i] + 1) {
            i++;
        }
        text += (text.empty() ? "" : ",") + std::to_string(sorted_[first]);
        text += i > first ? "-" + std::to_string(sorted_[i]) : "";
    }
    return text;
}

}  // namespace simulate
