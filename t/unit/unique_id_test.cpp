#include "limit/unique_id.hpp"

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>

namespace sliding_log {
namespace {

TEST(UniqueIds, AreUniqueAndShort) {
    UniqueIds ids(0x123456789abcdef0);
    std::unordered_set<std::string> seen;
    for (int i = 0; i < 300000; i++) {
        const std::string id(ids.next().view());
        EXPECT_GE(id.size(), 9u);
        EXPECT_LE(id.size(), 12u);
        EXPECT_TRUE(seen.insert(id).second) << id;
    }
}

TEST(UniqueIds, DifferBetweenWorkers) {
    UniqueIds one(1);
    UniqueIds two(2);
    EXPECT_NE(std::string(one.next().view()), std::string(two.next().view()));
    UniqueIds high(1ULL << 47);  // all 48 bits are used
    UniqueIds none(0);
    EXPECT_NE(std::string(high.next().view()), std::string(none.next().view()));
}

}  // namespace
}  // namespace sliding_log
