// The bounds of src/limit/bounds.hpp are those of the scripts.
#include "limit/bounds.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <regex>
#include <string>
#include <utility>

#include "embed.hpp"

EMBED(bounds, EMBEDDED_FILE("bounds.lua"));

namespace sliding_log {

TEST(Bounds, AreThoseOfTheScripts) {
    const std::pair<std::string, std::int64_t> bounds[] = {{"LARGEST_COUNT", kLargestCount},
                                                           {"MOST_OWED", kMostOwed},
                                                           {"LONGEST_TIME", kLongestTimeMs},
                                                           {"LATEST_TIME", kLatestTimeMs},
                                                           {"MOST_OF_LOG", kMostOfLog}};
    for (const auto& [name, value] : bounds) {
        const std::regex line("\nlocal " + name + " = " + std::to_string(value) + "( .*)?\n");
        EXPECT_TRUE(std::regex_search(std::string(EMBEDDED(bounds)), line)) << name;
    }
}

}  // namespace sliding_log
