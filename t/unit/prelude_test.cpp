// What lua/prelude.lua has is what the headers have.
#include "limit/bounds.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "embed.hpp"
#include "limit/block_form.hpp"

EMBED(prelude, EMBEDDED_FILE("prelude.lua"));

namespace sliding_log {

TEST(Bounds, AreThoseOfTheScripts) {
    const std::pair<std::string, std::int64_t> bounds[] = {{"LARGEST_COUNT", kLargestCount},
                                                           {"MOST_OWED", kMostOwed},
                                                           {"LONGEST_TIME", kLongestTimeMs},
                                                           {"LATEST_TIME", kLatestTimeMs},
                                                           {"MOST_OF_LOG", kMostOfLog}};
    for (const auto& [name, value] : bounds) {
        const std::string line = "\nlocal " + name + " = " + std::to_string(value);
        EXPECT_TRUE(EMBEDDED(prelude).find(line + " ") != std::string_view::npos ||
                    EMBEDDED(prelude).find(line + "\n") != std::string_view::npos)
            << name;
    }
}

TEST(BlockForm, IsThatOfTheScripts) {
    const std::string line = "\nlocal BLOCKED_UNTIL, BLOCKED_FOR = '" + std::string(kBlockedUntil) + "', '" +
                             std::string(kBlockedFor) + "'\n";
    EXPECT_NE(EMBEDDED(prelude).find(line), std::string_view::npos);
}

TEST(BlockForm, IsAMemberOfAZset) {
    EXPECT_EQ(blockMember("60000"), "blocked for 60000 ms");
    EXPECT_EQ(blockLengthIn("blocked for 60000 ms"), "60000");
    EXPECT_EQ(blockLengthIn("blocked for 60000 ms~~"), "60000");
    for (const char* other :
         {"", "blocked for", "blocked for ms", "blocked for  ms", "blocked for 5", "blocked for 5 ms ",
          "blocked for 5 ms~x", "blocked for -5 ms", "blocked for 5~ ms", "Blocked for 5 ms"}) {
        EXPECT_EQ(blockLengthIn(other), "") << other;
    }
}

}  // namespace sliding_log
