#include "redis/reply.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "redis/reply_arena.hpp"

namespace sliding_log {
namespace {

/// Reads RESP through hiredis's own reader and our arena, as a connection does; nullptr: refused.
class Wire {
  public:
    Wire() : reader_(redisReaderCreateWithFunctions(nullptr), redisReaderFree) { arena_.attach(*reader_); }

    const redisReply* read(std::string_view bytes, bool expected = true) {
        if (expected) {
            arena_.expectReply();
        }
        redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
        void* reply = nullptr;
        if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK || reply == nullptr) {
            return nullptr;
        }
        if (expected) {
            arena_.replyDelivered();
        }
        return static_cast<const redisReply*>(reply);
    }

    bool hasRefused() const { return arena_.hasRefused(); }

  private:
    ReplyArena arena_;
    std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader_;
};

StoreError decode(std::string_view bytes, std::span<Verdict> verdicts) {
    Wire wire;
    const redisReply* reply = wire.read(bytes);
    return reply == nullptr ? StoreError::Down : decodeVerdicts(*reply, verdicts);
}

TEST(DecodeVerdicts, TakesAnAdmission) {
    std::array<Verdict, 1> verdicts;
    EXPECT_EQ(decode("*4\r\n:1\r\n:994\r\n:12000\r\n:0\r\n", verdicts), StoreError::None);
    EXPECT_EQ(verdicts[0].remaining, 994);
    EXPECT_EQ(verdicts[0].resetMs, 12000);
    EXPECT_TRUE(verdicts[0].hasRoom());
}

TEST(DecodeVerdicts, TakesADenialByOneOfTwo) {
    std::array<Verdict, 2> verdicts;
    EXPECT_EQ(decode("*7\r\n:0\r\n:3\r\n:1\r\n:0\r\n:0\r\n:500\r\n:-1\r\n", verdicts), StoreError::None);
    EXPECT_TRUE(verdicts[0].hasRoom());
    EXPECT_FALSE(verdicts[1].hasRoom());
    EXPECT_EQ(verdicts[1].retryMs, Verdict::kNever);
}

TEST(DecodeVerdicts, RefusesEveryOtherShape) {
    for (const char* bytes : {
             "*0\r\n", "*-1\r\n", "$-1\r\n", "+OK\r\n", ":1\r\n", "$5\r\nhello\r\n", "*1\r\n:1\r\n",
             "*3\r\n:1\r\n:1\r\n:1\r\n", "*5\r\n:1\r\n:1\r\n:1\r\n:0\r\n:1\r\n",  // too short, too long
             "*4\r\n:1\r\n$1\r\n1\r\n:1\r\n:0\r\n", "*4\r\n:1\r\n*0\r\n:1\r\n:0\r\n", "*4\r\n:1\r\n$-1\r\n:1\r\n:0\r\n",
             "*4\r\n:2\r\n:1\r\n:1\r\n:0\r\n", "*4\r\n:-1\r\n:1\r\n:1\r\n:0\r\n",  // admitted is 0 or 1
             "*4\r\n:1\r\n:-1\r\n:1\r\n:0\r\n", "*4\r\n:1\r\n:1\r\n:-1\r\n:0\r\n", "*4\r\n:0\r\n:1\r\n:1\r\n:-2\r\n",
             "*4\r\n:1\r\n:1\r\n:1\r\n:5\r\n", "*4\r\n:0\r\n:1\r\n:1\r\n:0\r\n",  // verdict and retry disagree
             "*4\r\n*4\r\n:1\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n:0\r\n",
         }) {
        std::array<Verdict, 1> verdicts = {Verdict{77, 77, 77}};
        EXPECT_EQ(decode(bytes, verdicts), StoreError::Unexpected) << bytes;
        EXPECT_EQ(verdicts[0].remaining, 77) << bytes;
    }
}

TEST(DecodeVerdicts, TellsErrorsApart) {
    std::array<Verdict, 1> verdicts;
    EXPECT_EQ(decode("-NOSCRIPT No matching script.\r\n", verdicts), StoreError::NoScript);
    EXPECT_EQ(decode("-LOADING Redis is loading\r\n", verdicts), StoreError::TryAgain);
    EXPECT_EQ(decode("-BUSY Redis is busy\r\n", verdicts), StoreError::TryAgain);
    EXPECT_EQ(decode("-TRYAGAIN\r\n", verdicts), StoreError::TryAgain);
    EXPECT_EQ(decode("-OOM command not allowed\r\n", verdicts), StoreError::Refused);
    EXPECT_EQ(decode("-\r\n", verdicts), StoreError::Refused);
}

TEST(ReplyArena, RefusesAReplyNobodyAskedFor) {
    Wire wire;
    EXPECT_EQ(wire.read(":1\r\n", false), nullptr);
    EXPECT_TRUE(wire.hasRefused());
}

TEST(ReplyArena, LetsTheServersReasonToCloseThrough) {
    Wire wire;
    const redisReply* reply = wire.read("-ERR max number of clients reached\r\n", false);
    ASSERT_NE(reply, nullptr);
    EXPECT_EQ(replyText(*reply), "ERR max number of clients reached");
}

TEST(ReplyArena, RefusesALengthMadeOfGarbage) {
    Wire wire;
    EXPECT_EQ(wire.read("*2147483647\r\n"), nullptr);
    EXPECT_TRUE(wire.hasRefused());
}

TEST(ReplyArena, UsesItsMemoryAgainAndCopesWithMoreThanItHas) {
    Wire wire;
    std::string large = "*3000\r\n";
    for (int i = 0; i < 3000; i++) {
        large += "$3\r\nabc\r\n";
    }
    for (int round = 0; round < 3; round++) {
        const redisReply* reply = wire.read(large);
        ASSERT_NE(reply, nullptr);
        EXPECT_EQ(reply->elements, 3000u);
        EXPECT_EQ(replyText(*reply->element[2999]), "abc");
        const redisReply* small = wire.read("*2\r\n:7\r\n+OK\r\n");
        ASSERT_NE(small, nullptr);
        EXPECT_EQ(small->element[0]->integer, 7);
    }
}

TEST(ReplyArena, ReadsByteByByte) {
    Wire wire;
    const std::string bytes = "*2\r\n:12\r\n$4\r\nbulk\r\n";
    const redisReply* reply = nullptr;
    for (std::size_t i = 0; i < bytes.size(); i++) {
        ASSERT_EQ(reply, nullptr);
        reply = wire.read(std::string_view(bytes).substr(i, 1), i == 0);
    }
    ASSERT_NE(reply, nullptr);
    EXPECT_EQ(replyText(*reply->element[1]), "bulk");
}

}  // namespace
}  // namespace sliding_log
