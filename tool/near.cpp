#include "near.hpp"

#include <algorithm>
#include <vector>

namespace sliding_log::tool {

namespace {

constexpr std::size_t kLongest = 40;  // of a word that may be a mistyped one

/// The least number of insertions, deletions, replacements and swaps of neighbours that make one word of the other.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); i++) {
        for (std::size_t k = 0; k <= b.size(); k++) {
            if (i == 0 || k == 0) {
                rows[i][k] = i + k;
                continue;
            }
            const std::size_t replaced = rows[i - 1][k - 1] + (a[i - 1] == b[k - 1] ? 0 : 1);
            rows[i][k] = std::min({rows[i - 1][k] + 1, rows[i][k - 1] + 1, replaced});
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
                rows[i][k] = std::min(rows[i][k], rows[i - 2][k - 2] + 1);
            }
        }
    }
    return rows[a.size()][b.size()];
}

}  // namespace

std::string didYouMean(std::string_view word, std::span<const std::string_view> known) {
    std::string_view nearest;
    std::size_t least = word.size() <= kLongest ? word.size() / 3 + 1 : 0;
    for (const std::string_view each : known) {
        const bool isBeginning = word.size() >= 3 && each.starts_with(word);
        const std::size_t far = least == 0 ? 0 : isBeginning ? 0 : distance(word, each);
        if (far < least) {
            nearest = each;
            least = far;
        }
    }
    return nearest.empty() ? "" : "; did you mean \"" + std::string(nearest) + "\"?";
}

}  // namespace sliding_log::tool
