#include "redis/reply.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "redis/reply_arena.hpp"

namespace sliding_log {
namespace {

/// Reads RESP with the reader of hiredis and the arena, as a connection does; nullptr: refused.
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

/// A limit of 10 in a minute.
Check tenPerMinute(Algorithm algorithm = Algorithm::Log) {
    Check asked;
    asked.algorithm = algorithm;
    asked.limit = asked.burst = 10;
    asked.windowMs = 60'000;
    asked.sample = 5;
    return asked;
}

Check held(std::int64_t delayMs) {
    Check asked = tenPerMinute();
    asked.delayMs = asked.aheadMs = delayMs;
    return asked;
}

Check withLimit(std::int64_t limit) {
    Check asked = tenPerMinute();
    asked.limit = limit;
    return asked;
}

Check withCost(std::int64_t cost, std::int64_t limit = 10) {
    Check asked = withLimit(limit);
    asked.cost = cost;
    return asked;
}

using Checks = std::vector<Check>;

/// `*N`, and an integer in each line after it.
std::string integers(const std::vector<std::int64_t>& values) {
    std::string bytes = "*" + std::to_string(values.size()) + "\r\n";
    for (const std::int64_t value : values) {
        bytes += ":" + std::to_string(value) + "\r\n";
    }
    return bytes;
}

/// A text, as a short call has.
std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

StoreError read(std::string_view bytes, std::size_t requests, const Checks& checks) {
    Wire wire;
    BatchReply batch;
    const redisReply* reply = wire.read(bytes);
    return reply == nullptr ? StoreError::Down : batch.read(*reply, requests, checks);
}

StoreError read(const std::vector<std::int64_t>& values, std::size_t requests, const Checks& checks) {
    return read(integers(values), requests, checks);
}

/// The verdicts of the request at that position. The reply must be accepted.
std::vector<Verdict> verdicts(const std::vector<std::int64_t>& values, std::size_t requests, const Checks& checks,
                              std::size_t position) {
    Wire wire;
    BatchReply batch;
    std::vector<Verdict> told(checks.size());
    EXPECT_EQ(batch.read(*wire.read(integers(values)), requests, checks), StoreError::None);
    batch.writeVerdicts(position, told);
    return told;
}

Verdict verdict(const std::vector<std::int64_t>& values, std::size_t requests, const Check& asked,
                std::size_t position) {
    return verdicts(values, requests, {asked}, position)[0];
}

bool admits(std::string_view bytes, std::size_t batches = 1) {
    Wire wire;
    return hasAdmitted(*wire.read(bytes), batches);
}

TEST(BatchReply, CountsPermitsOfTheNodeAsLeft) {
    Wire wire;
    BatchReply batch;
    Check one = tenPerMinute();
    one.limit = 100;
    one.cost = 3;
    const std::array checks{one};
    ASSERT_EQ(batch.read(*wire.read(integers({1, 1'800'000'000'000, 50, 60'000, 7})), 2, checks), StoreError::None);
    batch.setOwnPermits(0, 5);
    std::array<Verdict, 1> verdicts;
    batch.writeVerdicts(0, verdicts);
    EXPECT_EQ(verdicts[0].remaining, 65);
    batch.writeVerdicts(1, verdicts);
    EXPECT_EQ(verdicts[0].remaining, 50) << "a denied request has none";
    EXPECT_EQ(batch.remaining(0), 50);
    batch.setOwnPermits(0, 99);
    batch.writeVerdicts(0, verdicts);
    EXPECT_EQ(verdicts[0].remaining, 100);
}

TEST(BatchReply, HasAtMostTheRequestedPermits) {
    const auto readPermits = [](const std::vector<std::int64_t>& values, std::size_t requests, std::uint32_t asked,
                                std::int64_t cost) {
        Wire wire;
        BatchReply batch;
        Check one = tenPerMinute();
        one.limit = 1000;
        one.cost = cost;
        const std::array checks{one};
        const std::array permits{asked};
        const StoreError error = batch.read(*wire.read(integers(values)), requests, checks, permits);
        return error == StoreError::None
                   ? std::vector<std::int64_t>{batch.permits(0), batch.remaining(0), batch.entriesBefore(0)}
                   : std::vector<std::int64_t>{};
    };
    constexpr std::int64_t kTime = 1'800'000'000'000;
    using Numbers = std::vector<std::int64_t>;
    EXPECT_EQ(readPermits({2, kTime, 500, 60'000, 0, 20}, 2, 20, 1), (Numbers{20, 500, 478}));
    EXPECT_EQ(readPermits({2, kTime, 500, 60'000, 0, 0}, 2, 20, 1), (Numbers{0, 500, 498}));
    EXPECT_EQ(readPermits({2, kTime, 500, 60'000, 0, 10}, 2, 20, 3), (Numbers{10, 500, 464}));
    EXPECT_EQ(readPermits({0, kTime, 500, 60'000, 0, 20}, 0, 20, 1), (Numbers{20, 500, 480})) << "without a request";
    EXPECT_EQ(readPermits({0, kTime, 980, 60'000, 0, 20}, 0, 20, 1), (Numbers{20, 980, 0})) << "of an empty log";
    EXPECT_EQ(readPermits({1, kTime, 980, 60'000, 0, 20}, 0, 20, 1), Numbers{}) << "there was no request";
    EXPECT_EQ(readPermits({1, kTime, 0, 60'000, 5}, 2, 20, 1), (Numbers{0, 0, 999}))
        << "a call with a denial has no permits";
    EXPECT_EQ(readPermits({2, kTime, 500, 60'000, 0, 21}, 2, 20, 1), Numbers{}) << "more than requested";
    EXPECT_EQ(readPermits({2, kTime, 50, 60'000, 0, 20}, 2, 20, 1), Numbers{}) << "more than a tenth of what remained";
    EXPECT_EQ(readPermits({2, kTime, 500, 60'000, 0, -1}, 2, 20, 1), Numbers{});
    EXPECT_EQ(readPermits({2, kTime, 990, 60'000, 0, 20}, 2, 20, 1), Numbers{}) << "more than the limit";
    EXPECT_EQ(readPermits({2, kTime, -20, 60'000, 0, 20}, 2, 20, 1), Numbers{});
    EXPECT_EQ(readPermits({2, kTime, 500, 60'000, 0}, 2, 20, 1), Numbers{});
    EXPECT_EQ(readPermits({2, kTime, 500, 60'000, 0, 5, 5}, 2, 20, 1), Numbers{});
    EXPECT_EQ(readPermits({1, kTime, 0, 60'000, 5, 5}, 2, 20, 1), Numbers{}) << "no request may be held";
}

TEST(HasAdmitted, IsTrueIfABatchHasAnAdmission) {
    EXPECT_TRUE(admits("*2\r\n*5\r\n:0\r\n:5\r\n:0\r\n:9\r\n:9\r\n*5\r\n:1\r\n:5\r\n:0\r\n:9\r\n:0\r\n", 2));
    EXPECT_TRUE(admits("*3\r\n*5\r\n:0\r\n:5\r\n:0\r\n:9\r\n:9\r\n:0\r\n:5\r\n", 2)) << "told briefly";
    EXPECT_TRUE(admits("*2\r\n*2\r\n:120009\r\n:9\r\n:5\r\n")) << "told briefly, of two logs";
    EXPECT_FALSE(admits("*2\r\n*5\r\n:0\r\n:5\r\n:0\r\n:9\r\n:9\r\n:5\r\n")) << "the time is no batch";
    EXPECT_FALSE(admits("*2\r\n*5\r\n:0\r\n:5\r\n:0\r\n:9\r\n:9\r\n-ERR no\r\n"));
    EXPECT_TRUE(admits(bulk("1 5 0 9 0")));
    EXPECT_FALSE(admits(bulk("0 5 0 9 9")));
    EXPECT_FALSE(admits(bulk("10 5 0 9 9")));
    for (const char* other : {"*0\r\n", "*-1\r\n", "$-1\r\n", ":1\r\n", "-ERR no\r\n", "*1\r\n$-1\r\n", "*1\r\n*0\r\n",
                              "*1\r\n*1\r\n$1\r\n1\r\n"}) {
        EXPECT_FALSE(admits(other)) << other;
    }
}

constexpr std::int64_t kNow = 1'800'000'000'000;
constexpr std::int64_t kYear = 366LL * 24 * 3600 * 1000;

TEST(BatchReply, AcceptsAdmissionsAndDenials) {
    EXPECT_EQ(read({1, kNow, 9, 12000, 0}, 1, {tenPerMinute()}), StoreError::None);
    EXPECT_EQ(read({0, kNow, 0, 12000, 12000}, 1, {tenPerMinute()}), StoreError::None);
    EXPECT_EQ(read({3, kNow, 0, 12000, 12000}, 5, {tenPerMinute()}), StoreError::None);
    EXPECT_EQ(read({0, kNow, 3, 1, 0, 0, 500, 500}, 1, {tenPerMinute(), tenPerMinute()}), StoreError::None);
    EXPECT_EQ(read({0, kNow, 3, 1, 0, 0, 500, -1}, 1, {tenPerMinute(), withLimit(0)}), StoreError::None);
}

TEST(BatchReply, AcceptsTheTextOfAShortCall) {
    Wire wire;
    BatchReply batch;
    const Check asked = tenPerMinute();
    ASSERT_EQ(batch.read(*wire.read(bulk("1 1700000000000 9 12000 0")), 1, {&asked, 1}), StoreError::None);
    Verdict told;
    batch.writeVerdicts(0, {&told, 1});
    EXPECT_EQ(batch.nowMs(), 1'700'000'000'000);
    EXPECT_EQ(batch.admitted(), 1U);
    EXPECT_EQ(told.remaining, 9);
    EXPECT_EQ(told.resetMs, 12000);
    EXPECT_TRUE(told.hasRoom());
    EXPECT_EQ(read(bulk("0 1700000000000 0 12000 12000"), 1, {tenPerMinute()}), StoreError::None);
    EXPECT_EQ(read(bulk("0 1700000000000 0 12000 -1"), 1, {withLimit(0)}), StoreError::None);
}

/// What one request with these limits is told by the reply to a plain call.
std::vector<Verdict> toldBriefly(std::string_view bytes, const Checks& checks) {
    Wire wire;
    BatchReply batch;
    std::vector<Verdict> told(checks.size());
    const redisReply& reply = *wire.read(bytes);
    const redisReply* time = timeBehind(reply, 1);
    if (batch.read(*reply.element[0], 1, checks, {}, time) != StoreError::None) {
        return {};
    }
    EXPECT_EQ(batch.nowMs(), 5);
    EXPECT_EQ(batch.admitted(), 1U);
    batch.writeVerdicts(0, told);
    return told;
}

TEST(BatchReply, AcceptsAdmissionsThatAreToldBriefly) {
    std::vector<Verdict> told = toldBriefly("*2\r\n:1092000\r\n:5\r\n", {tenPerMinute()});
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].remaining, 9) << "1092000 is 9 times two windows, and 12000";
    EXPECT_EQ(told[0].resetMs, 12000);
    EXPECT_TRUE(told[0].hasRoom());

    Check hourly = withLimit(7);
    hourly.windowMs = 3'600'000;
    told = toldBriefly("*2\r\n*2\r\n:1092000\r\n:3600000\r\n:5\r\n", {tenPerMinute(), hourly});
    ASSERT_EQ(told.size(), 2U);
    EXPECT_EQ(told[0].remaining, 9);
    EXPECT_EQ(told[1].remaining, 0);
    EXPECT_EQ(told[1].resetMs, 3'600'000);

    Check overridable = tenPerMinute();
    overridable.hasOverride = true;
    told = toldBriefly("*2\r\n:1092000\r\n:5\r\n", {overridable});
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].remaining, 9);
    EXPECT_FALSE(told[0].override.isInForce()) << "a log with a record is told at length";
}

TEST(BatchReply, RefusesWhatIsToldBrieflyAndImpossible) {
    const Check ten = tenPerMinute();
    EXPECT_TRUE(toldBriefly("*2\r\n:1200000\r\n:5\r\n", {ten}).empty()) << "remaining is the limit";
    EXPECT_TRUE(toldBriefly("*2\r\n:-1\r\n:5\r\n", {ten}).empty());
    EXPECT_TRUE(toldBriefly("*2\r\n:9223372036854775807\r\n:5\r\n", {ten}).empty());
    EXPECT_TRUE(toldBriefly("*2\r\n:1092000\r\n:-5\r\n", {ten}).empty()) << "a time before 1970";
    EXPECT_TRUE(toldBriefly("*2\r\n:1092000\r\n$1\r\n5\r\n", {ten}).empty()) << "no time is behind it";
    EXPECT_TRUE(toldBriefly("*1\r\n:1092000\r\n", {ten}).empty()) << "no time is behind it";
    EXPECT_TRUE(toldBriefly("*2\r\n:1092000\r\n:5\r\n", {ten, ten}).empty()) << "one number for two logs";
    EXPECT_TRUE(toldBriefly("*2\r\n*2\r\n:1092000\r\n:1092000\r\n:5\r\n", {ten}).empty()) << "two for one";
    EXPECT_TRUE(toldBriefly("*2\r\n*2\r\n:1092000\r\n$1\r\n1\r\n:5\r\n", {ten, ten}).empty()) << "a text";
    EXPECT_TRUE(toldBriefly("*2\r\n*3\r\n:1\r\n:1\r\n:1\r\n:5\r\n", {ten, ten, ten}).empty()) << "three logs";
    EXPECT_TRUE(toldBriefly("*2\r\n:1092000\r\n:5\r\n", {withLimit(0)}).empty()) << "a limit that denies all";
}

TEST(BatchReply, RefusesOtherTexts) {
    for (const char* text : {"",
                             " ",
                             "1",
                             "1 5 9 12000",
                             "1 5 9 12000 ",
                             "1 5 9 12000 0 ",
                             "1 5 9 12000 0 0",
                             " 1 5 9 12000 0",
                             "1  5 9 12000 0",
                             "1 5 9 12000 0x",
                             "1 5 9 12000 x",
                             "1,5,9,12000,0",
                             "+1 5 9 12000 0",
                             "1 5 9 12000 -",
                             "1 5 9 1200000000000000000000000 0",
                             "2 5 9 12000 0",
                             "-1 5 9 12000 0",
                             "1 5 11 12000 0",
                             "1 -5 9 12000 0",
                             "1 5 9 12000 12000"}) {
        EXPECT_EQ(read(bulk(text), 1, {tenPerMinute()}), StoreError::Unexpected) << text;
    }
    EXPECT_EQ(read(bulk("1 5 9 12000 0"), 1, {tenPerMinute()}), StoreError::None);
    EXPECT_EQ(read(bulk("1 5 9 12000 0"), 1, {tenPerMinute(), tenPerMinute()}), StoreError::Unexpected)
        << "it is of one log";
}

TEST(BatchReply, AcceptsReservations) {
    EXPECT_EQ(read({1, kNow, 0, 1, 0, 700}, 1, {held(700)}), StoreError::None);
    EXPECT_EQ(read({3, kNow, 0, 1, 900, 700, 700}, 4, {held(700)}), StoreError::None);
    EXPECT_EQ(read({1, kNow, 0, 1, 0, 5, 1, 0, 700}, 1, {tenPerMinute(), held(700)}), StoreError::None)
        << "the longest delay of the limits";
}

TEST(BatchReply, RefusesOtherTypesAndLengths) {
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
             "*5\r\n*1\r\n:1\r\n:5\r\n:1\r\n:1\r\n:0\r\n",
             "*6\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n$3\r\n700\r\n",
         }) {
        EXPECT_EQ(read(bytes, 1, {held(1000)}), StoreError::Unexpected) << bytes;
    }
}

TEST(BatchReply, RefusesImpossibleCounts) {
    const std::vector<std::vector<std::int64_t>> wrong = {
        {2, kNow, 1, 1, 0},   // more than requested
        {-1, kNow, 1, 1, 0},  // fewer than zero
        {1, -5, 1, 1, 0},     // before 1970
        {1, 1'000'000'000'000'000, 1, 1, 0},
        {1, kNow, -1, 1, 0},  // a negative remaining
        {1, kNow, 10, 1, 0},  // remaining is the limit after an admitted request
        {0, kNow, 11, 1, 1},  // more than the limit
        {1, kNow, INT64_MAX, 1, 0},
        {1, kNow, 1, 1, 5},   // admitted, with a retry
        {0, kNow, 1, 1, 0},   // denied by no log
        {0, kNow, 1, 1, -1},  // never, but the limit will have room
        {0, kNow, 1, 1, -2},
    };
    for (const std::vector<std::int64_t>& values : wrong) {
        EXPECT_EQ(read(values, 1, {tenPerMinute()}), StoreError::Unexpected) << integers(values);
    }
    EXPECT_EQ(read({5, kNow, 5, 1, 0}, 5, {tenPerMinute()}), StoreError::None);
    EXPECT_EQ(read({5, kNow, 6, 1, 0}, 5, {tenPerMinute()}), StoreError::Unexpected)
        << "more than the limit with five requests";
    EXPECT_EQ(read({5, kNow, 1, 1, 0}, 5, {withCost(2)}), StoreError::Unexpected);
    EXPECT_EQ(read({5, kNow, 0, 1, 0}, 5, {withCost(2)}), StoreError::None);
    EXPECT_EQ(read({5, kNow, 10, 1, 0}, 5, {withCost(0)}), StoreError::None);
    EXPECT_EQ(read({5, kNow, 10, 1, 0}, 5, {tenPerMinute(Algorithm::Sampled)}), StoreError::None)
        << "a sample may have no entry of these requests";
    EXPECT_EQ(read({5, kNow, 11, 1, 0}, 5, {tenPerMinute(Algorithm::Sampled)}), StoreError::Unexpected);
}

TEST(BatchReply, OfALimitWithoutRoomAcceptsDenialsOnly) {
    Check smallBucket = tenPerMinute(Algorithm::Bucket);
    smallBucket.burst = 0;
    for (const Check& asked : {withLimit(0), withCost(0, 0), withCost(11), smallBucket}) {
        EXPECT_EQ(read({0, kNow, 0, 5, -1}, 1, {asked}), StoreError::None);
        EXPECT_EQ(read({0, kNow, asked.capacity() + 1, 5, -1}, 1, {asked}), StoreError::Unexpected);
        EXPECT_EQ(read({0, kNow, 0, 5, 5}, 1, {asked}), StoreError::Unexpected);
        EXPECT_EQ(read({1, kNow, 0, 5, 0}, 1, {asked}), StoreError::Unexpected);
        EXPECT_EQ(read({1, kNow, 0, 5, -1}, 2, {asked}), StoreError::Unexpected);
    }
    Check bucket = tenPerMinute(Algorithm::Bucket);
    bucket.limit = 0;
    EXPECT_EQ(read({0, kNow, 10, 5, -1}, 1, {bucket}), StoreError::None) << "a full bucket that is never refilled";
}

TEST(BatchReply, RefusesImpossibleTimes) {
    struct Bound {
        Algorithm algorithm;
        std::int64_t longestReset;
    };
    constexpr Bound kBounds[] = {
        {Algorithm::Log, 67'000},
        {Algorithm::Compact, 67'000},
        {Algorithm::Sampled, 67'000},
        {Algorithm::Counter, 127'000},
        {Algorithm::Bucket, 999'999'999'999'999},
        {Algorithm::Quota, 120'000},
        {Algorithm::Inflight, 67'000},
    };
    for (const Bound& bound : kBounds) {
        Check asked = tenPerMinute(bound.algorithm);
        asked.aheadMs = 7000;
        const std::int64_t longestRetry = std::max(bound.longestReset, kYear);
        EXPECT_EQ(read({0, kNow, 0, bound.longestReset, longestRetry}, 1, {asked}), StoreError::None);
        EXPECT_EQ(read({0, kNow, 0, bound.longestReset + 1, 1}, 1, {asked}), StoreError::Unexpected);
        EXPECT_EQ(read({0, kNow, 0, 1, longestRetry + 1}, 1, {asked}), StoreError::Unexpected)
            << "longer than any block";
        EXPECT_EQ(read({0, kNow, 0, -1, 1}, 1, {asked}), StoreError::Unexpected);
    }
    const Check bucket = tenPerMinute(Algorithm::Bucket);
    EXPECT_EQ(read({1, kNow, 0, 120'000, 0}, 1, {bucket}), StoreError::None);
    EXPECT_EQ(read({1, kNow, 0, 120'001, 0}, 1, {bucket}), StoreError::Unexpected)
        << "an admitted request leaves no debt";
    EXPECT_EQ(read({0, kNow, 1, 120'001, 9}, 1, {bucket}), StoreError::Unexpected);
}

TEST(BatchReply, RefusesImpossibleReservations) {
    EXPECT_EQ(read({1, kNow, 0, 1, 0, 1}, 1, {tenPerMinute()}), StoreError::Unexpected) << "without delay=";
    const std::vector<std::vector<std::int64_t>> wrong = {
        {1, kNow, 0, 1, 0, 701},         // longer than delay=
        {1, kNow, 0, 1, 0, 0},           // until now
        {1, kNow, 0, 1, 0, -700},        // before now
        {2, kNow, 0, 1, 0, 700, 699},    // not in order of arrival
        {1, kNow, 0, 1, 900, 700, 700},  // more than admitted
        {0, kNow, 0, 1, 900, 700},      {1, kNow, 0, 1, 900, INT64_MAX},
    };
    for (const std::vector<std::int64_t>& values : wrong) {
        EXPECT_EQ(read(values, 2, {held(700)}), StoreError::Unexpected) << integers(values);
    }
}

TEST(BatchReply, DistinguishesErrors) {
    for (const auto& [bytes, error] : std::initializer_list<std::pair<const char*, StoreError>>{
             {"-NOSCRIPT No matching script.\r\n", StoreError::NoScript},
             {"-LOADING Redis is loading\r\n", StoreError::TryAgain},
             {"-BUSY Redis is busy\r\n", StoreError::TryAgain},
             {"-TRYAGAIN\r\n", StoreError::TryAgain},
             {"-OOM command not allowed\r\n", StoreError::OutOfMemory},
             {"-WRONGTYPE Operation against\r\n", StoreError::WrongType},
             {"-NOPERM this user\r\n", StoreError::Forbidden},
             {"-ERR unknown\r\n", StoreError::Refused},
             {"-\r\n", StoreError::Refused},
         }) {
        EXPECT_EQ(read(bytes, 1, {tenPerMinute()}), error) << bytes;
    }
}

TEST(BatchReply, CountsRemainingDownInOrderOfArrival) {
    const std::vector<std::int64_t> threeOfFive = {3, kNow, 0, 9000, 7000};
    for (std::size_t position = 0; position < 3; position++) {
        const Verdict admitted = verdict(threeOfFive, 5, tenPerMinute(), position);
        EXPECT_TRUE(admitted.hasRoom());
        EXPECT_EQ(admitted.remaining, static_cast<std::int64_t>(2 - position));
        EXPECT_EQ(admitted.resetMs, 9000);
    }
    for (std::size_t position = 3; position < 5; position++) {
        const Verdict denied = verdict(threeOfFive, 5, tenPerMinute(), position);
        EXPECT_EQ(denied.retryMs, 7000);
        EXPECT_EQ(denied.remaining, 0);
    }
}

TEST(BatchReply, CountsRemainingDownByTheCost) {
    const std::vector<std::int64_t> three = {3, kNow, 4, 9000, 0};
    EXPECT_EQ(verdict(three, 3, withCost(5, 20), 2).remaining, 4);
    EXPECT_EQ(verdict(three, 3, withCost(5, 20), 0).remaining, 14);
    EXPECT_EQ(verdict(three, 3, withCost(0), 0).remaining, 4);
    EXPECT_EQ(verdict({2, kNow, 9, 9000, 0}, 2, tenPerMinute(Algorithm::Sampled), 0).remaining, 10)
        << "remaining is at most the limit";
}

TEST(BatchReply, KnowsTheFirstRequestOfALog) {
    const std::vector<std::int64_t> three = {3, kNow, 7, 60'000, 0};
    EXPECT_TRUE(verdict(three, 3, tenPerMinute(), 0).isFirst);
    EXPECT_FALSE(verdict(three, 3, tenPerMinute(), 1).isFirst);
    EXPECT_FALSE(verdict({3, kNow, 6, 60'000, 0}, 3, tenPerMinute(), 0).isFirst) << "one of that time was there";
    EXPECT_TRUE(verdict({2, kNow, 10, 60'000, 0}, 2, withCost(5, 20), 0).isFirst);
    EXPECT_FALSE(verdict({2, kNow, 20, 60'000, 0}, 2, withCost(0, 20), 0).isFirst) << "it only looks";
    EXPECT_FALSE(verdict({0, kNow, 9, 60'000, 60'000}, 1, withCost(1), 0).isFirst) << "it is denied";
    EXPECT_TRUE(verdict({2, kNow, 5, 60'000, 0}, 2, tenPerMinute(Algorithm::Sampled), 0).isFirst);
    EXPECT_FALSE(verdict({2, kNow, 5, 59'000, 0}, 2, tenPerMinute(Algorithm::Sampled), 0).isFirst);
    EXPECT_FALSE(verdict({2, kNow, 10, 60'000, 0}, 2, tenPerMinute(Algorithm::Sampled), 0).isFirst)
        << "it is not drawn";
    Check two = held(800);
    two.limit = 2;
    EXPECT_TRUE(verdict({3, kNow, 0, 60'000, 0, 300}, 3, two, 0).isFirst) << "the third one is held";
}

TEST(BatchReply, KeepsRemainingOfTheOtherLog) {
    const std::vector<std::int64_t> oneOfTwo = {1, kNow, 8, 100, 0, 0, 200, 200};
    const Checks two = {tenPerMinute(), tenPerMinute()};
    EXPECT_EQ(verdicts(oneOfTwo, 2, two, 0)[0].remaining, 8);
    EXPECT_EQ(verdicts(oneOfTwo, 2, two, 1)[0].remaining, 8);
    EXPECT_TRUE(verdicts(oneOfTwo, 2, two, 1)[0].hasRoom());
    EXPECT_FALSE(verdicts(oneOfTwo, 2, two, 1)[1].hasRoom());
}

TEST(BatchReply, HoldsTheLastAdmittedRequests) {
    // the first two of five are admitted now, two are held
    constexpr std::array<std::int64_t, 5> kRemaining = {1, 0, 0, 0, 0};
    constexpr std::array<std::int64_t, 5> kDelay = {0, 0, 300, 800, 0};
    Wire wire;
    BatchReply batch;
    const Checks asked = {held(800)};
    ASSERT_EQ(batch.read(*wire.read(integers({4, 5000, 0, 9000, 7000, 300, 800})), 5, asked), StoreError::None);
    for (std::size_t position = 0; position < 5; position++) {
        std::array<Verdict, 1> told;
        batch.writeVerdicts(position, told);
        EXPECT_EQ(told[0].remaining, kRemaining[position]) << position;
        EXPECT_EQ(told[0].delayMs, kDelay[position]) << position;
        EXPECT_EQ(told[0].hasRoom(), position < 4) << position;
        EXPECT_EQ(batch.loggedMs(position), 5000u + static_cast<std::uint64_t>(kDelay[position])) << position;
    }
}

TEST(BatchReply, ReplacesThePreviousReply) {
    Wire wire;
    BatchReply batch;
    const Checks two = {held(800), held(800)};
    ASSERT_EQ(batch.read(*wire.read(integers({2, kNow, 0, 9, 0, 0, 9, 0, 300, 800})), 2, two), StoreError::None);
    ASSERT_EQ(batch.read(*wire.read(integers({1, kNow, 3, 9, 0})), 1, std::span(two).first(1)), StoreError::None);
    std::array<Verdict, 1> told;
    batch.writeVerdicts(0, told);
    EXPECT_EQ(told[0].remaining, 3);
    EXPECT_EQ(told[0].delayMs, 0);
}

TEST(CheckTakeBack, AcceptsANumberOfLogs) {
    Wire wire;
    for (const auto& [bytes, error] : std::initializer_list<std::pair<const char*, StoreError>>{
             {":0\r\n", StoreError::None},
             {":2\r\n", StoreError::None},
             {":3\r\n", StoreError::Unexpected},
             {":-1\r\n", StoreError::Unexpected},
             {"+OK\r\n", StoreError::Unexpected},
             {"$-1\r\n", StoreError::Unexpected},
             {"*1\r\n:1\r\n", StoreError::Unexpected},
         }) {
        EXPECT_EQ(checkTakeBack(*wire.read(bytes), 2), error) << bytes;
    }
}

TEST(ReplyArena, RefusesAnUnexpectedReply) {
    Wire wire;
    EXPECT_EQ(wire.read(":1\r\n", false), nullptr);
    EXPECT_TRUE(wire.hasRefused());
}

TEST(ReplyArena, AcceptsTheErrorBeforeAServerCloses) {
    Wire wire;
    const redisReply* reply = wire.read("-ERR max number of clients reached\r\n", false);
    ASSERT_NE(reply, nullptr);
    EXPECT_EQ(replyText(*reply), "ERR max number of clients reached");
}

TEST(ReplyArena, AcceptsMessagesOfItsChannelOnly) {
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

TEST(ReplyArena, RefusesAnExcessiveLength) {
    Wire wire;
    EXPECT_EQ(wire.read("*2147483647\r\n"), nullptr);
    EXPECT_TRUE(wire.hasRefused());
}

TEST(ReplyArena, ReusesItsMemoryAndGrows) {
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

TEST(BatchReply, HasWhatTheRecordsOfTheLogsSay) {
    constexpr std::int64_t kTime = 1'800'000'000'000;
    constexpr std::int64_t kEnd = kTime + 5000;
    Check asked = tenPerMinute();
    asked.hasOverride = true;
    const auto isRead = [&](const std::vector<std::int64_t>& values, std::size_t requests = 1) {
        return read(values, requests, {asked}) == StoreError::None;
    };
    EXPECT_TRUE(isRead({1, kTime, 9, 60'000, 0, -1, 0})) << "none";
    EXPECT_TRUE(isRead({1, kTime, 9, 60'000, 0, -4, 0})) << "broken";
    EXPECT_TRUE(isRead({1, kTime, 9, 60'000, 0, -5, 0})) << "forbidden";
    EXPECT_FALSE(isRead({1, kTime, 9, 60'000, 0})) << "too short";
    EXPECT_FALSE(isRead({1, kTime, 9, 60'000, 0, -1})) << "too short";
    EXPECT_FALSE(isRead({1, kTime, 9, 60'000, 0, -6, 0}));
    EXPECT_FALSE(isRead({1, kTime, 9, 60'000, 0, -1, -1}));
    EXPECT_FALSE(isRead({1, kTime, 40, 60'000, 0, -1, 0})) << "more than the limit";
    EXPECT_TRUE(isRead({1, kTime, 40, 60'000, 0, 50, 0})) << "not more than that of the record";
    EXPECT_FALSE(isRead({1, kTime, 50, 60'000, 0, 50, 0}));
    EXPECT_FALSE(isRead({1, kTime, 9, 60'000, 0, 5, 0}));
    EXPECT_TRUE(isRead({0, kTime, 0, 60'000, -1, 0, 0})) << "a limit of 0";
    EXPECT_FALSE(isRead({0, kTime, 0, 60'000, 5, 0, 0}));
    EXPECT_TRUE(isRead({3, kTime, 10, 60'000, 0, -2, kEnd}, 3)) << "allowed";
    EXPECT_FALSE(isRead({3, kTime, 9, 60'000, 0, -2, kEnd}, 3));
    EXPECT_FALSE(isRead({2, kTime, 10, 60'000, 0, -2, kEnd}, 3)) << "all are";
    EXPECT_FALSE(isRead({0, kTime, 10, 60'000, 7, -2, kEnd}));
    EXPECT_TRUE(isRead({0, kTime, 0, 5000, 5000, -3, kEnd})) << "denied";
    EXPECT_TRUE(isRead({0, kTime, 0, 60'000, -1, -3, 0}));
    EXPECT_FALSE(isRead({0, kTime, 0, 60'000, -1, -3, kEnd})) << "it ends";
    EXPECT_FALSE(isRead({0, kTime, 0, 5000, 5000, -3, 0})) << "it does not end";
    EXPECT_FALSE(isRead({1, kTime, 0, 5000, 5000, -3, kEnd})) << "nobody is admitted";
    EXPECT_FALSE(isRead({0, kTime, 3, 5000, 5000, -3, kEnd}));

    EXPECT_EQ(verdict({3, kTime, 10, 60'000, 0, -2, kEnd}, 3, asked, 0).remaining, 10) << "nothing was used";
    const Verdict denied = verdict({0, kTime, 0, 5000, 5000, -3, kEnd}, 1, asked, 0);
    EXPECT_EQ(denied.override.what, Override::What::Deny);
    EXPECT_EQ(denied.override.untilMs, kEnd);
    EXPECT_EQ(denied.retryMs, 5000);
    EXPECT_EQ(verdict({2, kTime, 40, 60'000, 0, 50, 0}, 2, asked, 0).remaining, 41);
    EXPECT_EQ(read({1, kTime, 9, 60'000, 0, 9, 60'000, 0, -1, 0, -2, 0}, 1, {asked, tenPerMinute()}),
              StoreError::Unexpected)
        << "the second log has no record";
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
