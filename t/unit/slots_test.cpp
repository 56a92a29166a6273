// Hash slots as computed by Redis (CLUSTER KEYSLOT), redirects, and the reply to CLUSTER SLOTS.

#include "redis/hash_slots.hpp"

#include <gtest/gtest.h>

#include "redis/reply_arena.hpp"
#include "redis/slot_map.hpp"

namespace sliding_log {
namespace {

TEST(HashSlots, AreThoseOfRedis) {
    EXPECT_EQ(crc16("123456789"), 0x31C3);  // the example of the cluster specification
    EXPECT_EQ(hashSlotOf("foo"), 12182);
    EXPECT_EQ(hashSlotOf("bar"), 5061);
    EXPECT_EQ(hashSlotOf("hello"), 866);
    EXPECT_EQ(hashSlotOf(""), 0);
    EXPECT_EQ(hashSlotOf("\xff\x80"), crc16("\xff\x80") % kHashSlots);
}

TEST(HashSlots, UseTheHashTag) {
    EXPECT_EQ(hashSlotOf("rl:sliding:api:{foo}"), hashSlotOf("foo"));
    EXPECT_EQ(hashSlotOf("{user1000}.following"), hashSlotOf("{user1000}.followers"));
    EXPECT_EQ(hashTag("foo{}{bar}"), "foo{}{bar}");  // an empty tag is not a tag
    EXPECT_EQ(hashTag("foo{{bar}}zap"), "{bar");
    EXPECT_EQ(hashTag("foo{bar}{zap}"), "bar");
    EXPECT_EQ(hashTag("foo{bar"), "foo{bar");
    EXPECT_EQ(hashTag("}foo{"), "}foo{");
}

TEST(Redirects, AreRead) {
    const auto v4 = readRedirect("MOVED 3999 127.0.0.1:6381");
    ASSERT_TRUE(v4);
    EXPECT_EQ(v4->hashSlot, 3999);
    EXPECT_EQ(v4->host, "127.0.0.1");
    EXPECT_EQ(v4->port, 6381);
    EXPECT_EQ(readRedirect("ASK 0 ::1:6381")->host, "::1");
    EXPECT_EQ(readRedirect("ASK 0 [::1]:6381")->host, "::1");
    EXPECT_EQ(readRedirect("MOVED 16383 redis.example:1")->host, "redis.example");
    EXPECT_EQ(readRedirect("MOVED 1 :6381")->host, "");
}

TEST(Redirects, OtherTextIsRefused) {
    for (const char* text : {"", "MOVED", "MOVED 1", "MOVED 1 ", "MOVED 1 host", "MOVED x host:1", "MOVED 16384 h:1",
                             "MOVED -1 h:1", "MOVED 1 h:0", "MOVED 1 h:65536", "MOVED 1 h:", "MOVED 1 h:1x", "MOVED:1",
                             "MOVED 1 a b:1", "MOVED 1 a\nb:1", "MOVED 1 a/b:1"}) {
        EXPECT_FALSE(readRedirect(text)) << text;
    }
}

std::vector<SlotRange> mapFrom(std::string_view wire) {
    redisReader* reader = redisReaderCreate();
    redisReaderFeed(reader, wire.data(), wire.size());
    void* reply = nullptr;
    EXPECT_EQ(redisReaderGetReply(reader, &reply), REDIS_OK);
    std::vector<SlotRange> ranges =
        reply == nullptr ? std::vector<SlotRange>() : readSlotMap(*static_cast<redisReply*>(reply));
    freeReplyObject(reply);
    redisReaderFree(reader);
    return ranges;
}

TEST(SlotMap, HasMastersAndTheirRanges) {
    const auto ranges = mapFrom(
        "*2\r\n"
        "*4\r\n:0\r\n:5460\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$1\r\na\r\n*0\r\n*3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$"
        "1\r\nd\r\n"
        "*3\r\n:5461\r\n:5461\r\n*3\r\n$3\r\n::1\r\n:7001\r\n$1\r\nb\r\n");
    ASSERT_EQ(ranges.size(), 2U);
    EXPECT_EQ(ranges[0].first, 0);
    EXPECT_EQ(ranges[0].last, 5460);
    EXPECT_EQ(ranges[0].host, "127.0.0.1");
    EXPECT_EQ(ranges[0].port, 7000);
    EXPECT_EQ(ranges[1].host, "::1");
}

TEST(SlotMap, AcceptsNamesAndUnknownHosts) {
    const auto ranges = mapFrom(
        "*3\r\n"
        "*3\r\n:0\r\n:1\r\n*4\r\n$5\r\nnode1\r\n:7000\r\n$1\r\na\r\n*2\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n"
        "*3\r\n:2\r\n:3\r\n*3\r\n$-1\r\n:7001\r\n$1\r\nb\r\n"
        "*3\r\n:4\r\n:5\r\n*3\r\n$1\r\n?\r\n:7002\r\n$1\r\nc\r\n");
    ASSERT_EQ(ranges.size(), 2U);
    EXPECT_EQ(ranges[0].host, "node1");
    EXPECT_EQ(ranges[0].address, "10.0.0.1");
    EXPECT_EQ(ranges[1].host, "");
    EXPECT_EQ(ranges[1].port, 7001);
}

TEST(SlotMap, OmitsOtherElements) {
    for (const char* wire :
         {"*0\r\n", "+OK\r\n", ":1\r\n", "$-1\r\n", "*1\r\n:1\r\n", "*1\r\n*0\r\n", "*1\r\n*-1\r\n",
          "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
          "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:0\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\nh\r\n",
          "*1\r\n*3\r\n$1\r\n0\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n", "-ERR no\r\n"}) {
        EXPECT_TRUE(mapFrom(wire).empty()) << wire;
    }
}

}  // namespace
}  // namespace sliding_log
