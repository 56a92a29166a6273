#include "redis/info.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sliding_log {
namespace {

constexpr std::string_view kInfo =
    "# Memory\r\nused_memory:1167768\r\nused_memory_human:1.11M\r\nmaxmemory:0\r\nmaxmemory_human:0B\r\n"
    "maxmemory_policy:noeviction\r\n\r\n# Stats\r\nexpired_keys:3\r\nevicted_keys:18446744073709551615\r\n";

TEST(Info, ReadsMemory) {
    const auto info = readMemoryInfo(kInfo);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->used, 1167768U);
    EXPECT_EQ(info->max, 0U);
    EXPECT_EQ(info->evictedKeys, 18446744073709551615U);
    EXPECT_FALSE(info->evictionUnsafe);
}

TEST(Info, ReadsPolicies) {
    EXPECT_TRUE(isEvictionUnsafe("allkeys-lru"));
    EXPECT_FALSE(isEvictionUnsafe("volatile-ttl"));
    std::string text(kInfo);
    text.replace(text.find("noeviction"), sizeof("noeviction") - 1, "allkeys-lfu");
    EXPECT_TRUE(readMemoryInfo(text)->evictionUnsafe);
}

TEST(Info, AnIncompleteTextIsRefused) {
    for (const std::string_view lacking : {"used_memory:", "maxmemory:", "maxmemory_policy:", "evicted_keys:"}) {
        std::string text(kInfo);
        text.replace(text.find(lacking), 3, "xyz");
        EXPECT_FALSE(readMemoryInfo(text)) << lacking;
    }
    EXPECT_FALSE(readMemoryInfo(""));
    EXPECT_FALSE(readMemoryInfo("used_memory"));
    EXPECT_FALSE(readMemoryInfo("used_memory:-1\r\nmaxmemory:1x\r\nmaxmemory_policy:\r\nevicted_keys:\r\n"));
}

}  // namespace
}  // namespace sliding_log
