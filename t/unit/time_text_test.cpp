#include "limit/time_text.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "operations.hpp"

namespace sliding_log {
namespace {

std::string textOf(std::int64_t ms) {
    return std::string(TimeText(ms).view());
}

/// Reads a time as ngx_parse_time() does: units in descending order, each once.
std::int64_t read(const std::string& text) {
    const std::map<std::string, std::int64_t> units = {
        {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
    std::int64_t total = 0;
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = text.find_first_not_of("0123456789", at);
        const std::size_t end = std::min(text.find_first_of("0123456789", begin), text.size());
        const std::int64_t unit = units.at(text.substr(begin, end - begin));
        EXPECT_LT(unit, last) << text;
        last = unit;
        total += unit * std::atoll(text.substr(at, begin - at).c_str());
        at = end;
    }
    return total;
}

TEST(TimeText, IsAValidTimeOfNginx) {
    EXPECT_EQ(textOf(1), "1ms");
    EXPECT_EQ(textOf(500), "500ms");
    EXPECT_EQ(textOf(1000), "1s");
    EXPECT_EQ(textOf(60'000), "1m");
    EXPECT_EQ(textOf(90'000), "1m30s");
    EXPECT_EQ(textOf(3'600'500), "1h500ms");
    EXPECT_EQ(textOf(366LL * 86'400'000), "366d");
    EXPECT_EQ(textOf(0), "0s");
    EXPECT_EQ(textOf(std::numeric_limits<std::int64_t>::max()), "106751991167d7h12m55s807ms");
}

TEST(TimeText, IsParsedToTheSameTime) {
    std::mt19937_64 random(11);
    for (int i = 0; i < operations(20'000); i++) {
        const auto ms = static_cast<std::int64_t>(random() >> (1 + random() % 63));
        EXPECT_EQ(read(textOf(ms)), ms);
    }
}

}  // namespace
}  // namespace sliding_log
