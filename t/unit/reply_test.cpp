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

    void expectMessages() { arena_.expectMessages("news"); }

  private:
    ReplyArena arena_;
    std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader_;
};

StoreError check(std::string_view bytes, std::size_t requests, std::size_t logs) {
    Wire wire;
    const redisReply* reply = wire.read(bytes);
    return reply == nullptr ? StoreError::Down : checkGroup(*reply, requests, logs);
}

Verdict verdict(std::string_view bytes, std::size_t place, std::size_t log, std::size_t logs = 1,
                std::int64_t cost = 1) {
    Wire wire;
    std::array<Question, 2> questions;
    std::array<Verdict, 2> verdicts;
    questions[log].cost = cost;
    readVerdicts(*wire.read(bytes), place, std::span(questions).first(logs), verdicts);
    return verdicts[log];
}

TEST(CheckGroup, TakesAdmissionsAndDenials) {
    EXPECT_EQ(check("*5\r\n:1\r\n:5\r\n:994\r\n:12000\r\n:0\r\n", 1, 1), StoreError::None);
    EXPECT_EQ(check("*5\r\n:0\r\n:5\r\n:0\r\n:12000\r\n:12000\r\n", 1, 1), StoreError::None);
    EXPECT_EQ(check("*5\r\n:3\r\n:5\r\n:0\r\n:12000\r\n:12000\r\n", 5, 1), StoreError::None);
    EXPECT_EQ(check("*8\r\n:0\r\n:5\r\n:3\r\n:1\r\n:0\r\n:0\r\n:500\r\n:-1\r\n", 1, 2), StoreError::None);
}

TEST(CheckGroup, TakesHeldOnes) {
    EXPECT_EQ(check("*6\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n:700\r\n", 1, 1), StoreError::None);
    EXPECT_EQ(check("*7\r\n:3\r\n:5\r\n:0\r\n:1\r\n:900\r\n:700\r\n:700\r\n", 4, 1), StoreError::None);
}

TEST(CheckGroup, RefusesEveryOtherShape) {
    for (const char* bytes : {
             "*0\r\n",
             "*-1\r\n",
             "$-1\r\n",
             "+OK\r\n",
             ":1\r\n",
             "$5\r\nhello\r\n",
             "*1\r\n:1\r\n",
             "*4\r\n:1\r\n:5\r\n:1\r\n:1\r\n",  // too short
             "*5\r\n:1\r\n:5\r\n$1\r\n1\r\n:1\r\n:0\r\n",
             "*5\r\n:1\r\n:5\r\n*0\r\n:1\r\n:0\r\n",
             "*5\r\n:1\r\n:5\r\n$-1\r\n:1\r\n:0\r\n",
             "*5\r\n:1\r\n$1\r\n5\r\n:1\r\n:1\r\n:0\r\n",
             "*5\r\n:2\r\n:5\r\n:1\r\n:1\r\n:0\r\n",
             "*5\r\n:-1\r\n:5\r\n:1\r\n:1\r\n:0\r\n",  // more than asked, fewer than none
             "*5\r\n:1\r\n:-5\r\n:1\r\n:1\r\n:0\r\n",
             "*5\r\n:1\r\n:5\r\n:-1\r\n:1\r\n:0\r\n",
             "*5\r\n:1\r\n:5\r\n:1\r\n:-1\r\n:0\r\n",
             "*5\r\n:0\r\n:5\r\n:1\r\n:1\r\n:-2\r\n",
             "*5\r\n:1\r\n:5\r\n:9223372036854775807\r\n:1\r\n:0\r\n",
             "*5\r\n:1\r\n:5\r\n:1\r\n:9223372036854775807\r\n:0\r\n",  // more than a field can say
             "*5\r\n:0\r\n:5\r\n:1\r\n:1\r\n:9223372036854775807\r\n",
             "*5\r\n:1\r\n:9223372036854775807\r\n:1\r\n:1\r\n:0\r\n",
             "*5\r\n:1\r\n:5\r\n:1\r\n:1\r\n:5\r\n",
             "*5\r\n:0\r\n:5\r\n:1\r\n:1\r\n:0\r\n",  // verdict and retry disagree
             "*5\r\n*1\r\n:1\r\n:5\r\n:1\r\n:1\r\n:0\r\n",
             "*6\r\n:0\r\n:5\r\n:0\r\n:1\r\n:7\r\n:700\r\n",  // more held than admitted
             "*7\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n:700\r\n:700\r\n",
             "*6\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n:0\r\n",  // held until now, or before
             "*6\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n:-700\r\n",
             "*6\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n$3\r\n700\r\n",
             "*6\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n:9223372036854775807\r\n",
         }) {
        EXPECT_EQ(check(bytes, 1, 1), StoreError::Unexpected) << bytes;
    }
    // held, but not in the order of arrival
    EXPECT_EQ(check("*7\r\n:2\r\n:5\r\n:0\r\n:1\r\n:0\r\n:700\r\n:699\r\n", 2, 1), StoreError::Unexpected);
}

TEST(CheckGroup, TellsErrorsApart) {
    EXPECT_EQ(check("-NOSCRIPT No matching script.\r\n", 1, 1), StoreError::NoScript);
    EXPECT_EQ(check("-LOADING Redis is loading\r\n", 1, 1), StoreError::TryAgain);
    EXPECT_EQ(check("-BUSY Redis is busy\r\n", 1, 1), StoreError::TryAgain);
    EXPECT_EQ(check("-TRYAGAIN\r\n", 1, 1), StoreError::TryAgain);
    EXPECT_EQ(check("-OOM command not allowed\r\n", 1, 1), StoreError::OutOfMemory);
    EXPECT_EQ(check("-WRONGTYPE Operation against\r\n", 1, 1), StoreError::WrongType);
    EXPECT_EQ(check("-NOPERM this user\r\n", 1, 1), StoreError::Forbidden);
    EXPECT_EQ(check("-ERR unknown\r\n", 1, 1), StoreError::Refused);
    EXPECT_EQ(check("-\r\n", 1, 1), StoreError::Refused);
}

TEST(ReadVerdicts, CountsDownInTheOrderOfArrival) {
    const char* three_of_five = "*5\r\n:3\r\n:5\r\n:0\r\n:9000\r\n:7000\r\n";
    for (std::size_t place = 0; place < 3; place++) {
        const Verdict admitted = verdict(three_of_five, place, 0);
        EXPECT_TRUE(admitted.hasRoom());
        EXPECT_EQ(admitted.remaining, static_cast<std::int64_t>(2 - place));
        EXPECT_EQ(admitted.resetMs, 9000);
    }
    for (std::size_t place = 3; place < 5; place++) {
        const Verdict denied = verdict(three_of_five, place, 0);
        EXPECT_EQ(denied.retryMs, 7000);
        EXPECT_EQ(denied.remaining, 0);
    }
}

TEST(ReadVerdicts, CountsDownByTheCost) {
    const char* three = "*5\r\n:3\r\n:5\r\n:4\r\n:9000\r\n:0\r\n";
    EXPECT_EQ(verdict(three, 2, 0, 1, 5).remaining, 4);
    EXPECT_EQ(verdict(three, 0, 0, 1, 5).remaining, 14);
    EXPECT_EQ(verdict(three, 0, 0, 1, 0).remaining, 4);
    const char* many = "*5\r\n:511\r\n:5\r\n:999999999999999\r\n:1\r\n:0\r\n";
    EXPECT_EQ(verdict(many, 0, 0, 1, 1'000'000'000'000).remaining, 999'999'999'999'999) << "what a field can say";
}

TEST(ReadVerdicts, KeepsWhatTheOtherLogHasLeft) {
    const char* one_of_two = "*8\r\n:1\r\n:5\r\n:8\r\n:100\r\n:0\r\n:0\r\n:200\r\n:200\r\n";
    EXPECT_EQ(verdict(one_of_two, 0, 0, 2).remaining, 8);
    EXPECT_EQ(verdict(one_of_two, 1, 0, 2).remaining, 8);
    EXPECT_TRUE(verdict(one_of_two, 1, 0, 2).hasRoom());
    EXPECT_FALSE(verdict(one_of_two, 1, 1, 2).hasRoom());
}

TEST(ReadVerdicts, HoldsTheLastOnesAdmitted) {
    // of five the first two go now, two are held
    const char* reply = "*7\r\n:4\r\n:5000\r\n:0\r\n:9000\r\n:7000\r\n:300\r\n:800\r\n";
    constexpr std::array<std::int64_t, 5> kRemaining = {1, 0, 0, 0, 0};
    constexpr std::array<std::int64_t, 5> kDelay = {0, 0, 300, 800, 0};
    Wire wire;
    const redisReply* group = wire.read(reply);
    for (std::size_t place = 0; place < 5; place++) {
        std::array<Question, 1> questions;
        std::array<Verdict, 1> verdicts;
        readVerdicts(*group, place, questions, verdicts);
        EXPECT_EQ(verdicts[0].remaining, kRemaining[place]) << place;
        EXPECT_EQ(verdicts[0].delayMs, kDelay[place]) << place;
        EXPECT_EQ(verdicts[0].hasRoom(), place < 4) << place;
        EXPECT_EQ(readLoggedMs(*group, place, 1), 5000u + static_cast<std::uint64_t>(kDelay[place])) << place;
    }
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

TEST(ReplyArena, OnceSubscribedTakesMessagesOfThatChannelAndNothingElse) {
    for (const char* bytes :
         {"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n",
          "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n*1\r\n:1\r\n"}) {
        Wire wire;
        wire.expectMessages();
        EXPECT_NE(wire.read(bytes, false), nullptr) << bytes;
    }
    for (const char* bytes :
         {":1\r\n", "+OK\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "*1\r\n$7\r\nmessage\r\n",
          "*2\r\n$7\r\nmessage\r\n$4\r\nnews\r\n", "*3\r\n:1\r\n$4\r\nnews\r\n:1\r\n",
          "*3\r\n$-1\r\n$4\r\nnews\r\n:1\r\n", "*3\r\n+message\r\n$4\r\nnews\r\n:1\r\n",
          "*3\r\n$7\r\nmessage\r\n:1\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n*1\r\n$4\r\nnews\r\n:1\r\n",
          "*3\r\n$9\r\nsubscribe\r\n$3\r\nold\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n$3\r\nold\r\n$2\r\nhi\r\n",
          "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n$1\r\nx\r\n",
          "*4\r\n$8\r\npmessage\r\n$4\r\nnews\r\n$4\r\nnews\r\n$1\r\nx\r\n"}) {
        Wire wire;
        wire.expectMessages();
        EXPECT_EQ(wire.read(bytes, false), nullptr) << bytes;
        EXPECT_TRUE(wire.hasRefused()) << bytes;
    }
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
