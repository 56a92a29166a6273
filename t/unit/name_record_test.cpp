#include "metrics/name_record.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace sliding_log {
namespace {

using What = Override::What;
using Change = NameRecord::Change;
using End = NameRecord::End;

constexpr std::int64_t kServerMs = 1'800'000'000'000;

Override limit(std::int64_t limit, std::int64_t untilMs = 0) {
    return {What::Limit, limit, untilMs};
}

TEST(NameRecord, BeginsChangesAndEnds) {
    NameRecord record;
    std::uint64_t now = 5000;
    EXPECT_FALSE(record.now(now).isInForce());
    EXPECT_EQ(record.read({}, kServerMs, now), Change::None);
    EXPECT_EQ(record.read(limit(0), kServerMs, now), Change::Begun);
    EXPECT_EQ(record.now(now).what, What::Limit);
    EXPECT_EQ(record.now(now).limit, 0);
    EXPECT_EQ(record.read(limit(0), kServerMs + 1000, now + 1000), Change::None);
    EXPECT_EQ(record.read(limit(kLargestCount), kServerMs, now), Change::Changed);
    EXPECT_EQ(record.now(now).limit, kLargestCount);
    EXPECT_EQ(record.read(limit(kLargestCount, kLatestTimeMs), kServerMs, now), Change::Changed);
    EXPECT_EQ(record.now(now).untilMs, kLatestTimeMs);
    for (const What what : {What::Allow, What::Deny, What::DryRun}) {
        EXPECT_EQ(record.read({what, 0, 0}, kServerMs, now), Change::Changed);
        EXPECT_EQ(record.now(now).what, what);
    }
    EXPECT_EQ(record.read({}, kServerMs, now), Change::Ended);
    EXPECT_FALSE(record.now(now).isInForce());
    EXPECT_EQ(record.end(now), End::None);
}

TEST(NameRecord, EndsAtItsTimeAlsoUnread) {
    NameRecord record;
    EXPECT_EQ(record.read({What::Deny, 0, kServerMs + 3000}, kServerMs, 1000), Change::Begun);
    EXPECT_EQ(record.leftMs(1500), 2500);
    EXPECT_TRUE(record.now(3999).isInForce());
    EXPECT_EQ(record.end(3999), End::None);
    EXPECT_FALSE(record.now(4000).isInForce());
    EXPECT_EQ(record.end(4000), End::Over);
    EXPECT_EQ(record.end(4000), End::None) << "it is told once";
    EXPECT_EQ(record.read({What::Deny, 0, kServerMs + 3000}, kServerMs + 3000, 4001), Change::None)
        << "it is over there";
}

TEST(NameRecord, TheClockOfTheServerMayBeSet) {
    NameRecord record;
    record.read({What::Deny, 0, kServerMs + 3000}, kServerMs, 1000);
    EXPECT_EQ(record.read({What::Deny, 0, kServerMs + 3000}, kServerMs - 60'000, 2000), Change::None);
    EXPECT_EQ(record.leftMs(2000), 63'000);
}

TEST(NameRecord, ItsServerMayCeaseToTellTheTime) {
    NameRecord record;
    EXPECT_EQ(record.serverMs(std::nullopt, kServerMs + 7, 1000), kServerMs + 7) << "nobody knows better";
    EXPECT_EQ(record.serverMs(kServerMs, kServerMs + 5000, 1000), kServerMs);
    EXPECT_EQ(record.serverMs(std::nullopt, kServerMs + 8000, 4000), kServerMs + 3000);
    EXPECT_EQ(record.serverMs(kServerMs - 60'000, 0, 5000), kServerMs - 60'000) << "it may be set";
    EXPECT_EQ(record.serverMs(std::nullopt, 0, 5001), kServerMs - 59'999);
    record.clear();
    EXPECT_EQ(record.serverMs(std::nullopt, kServerMs + 7, 6000), kServerMs + 7);
}

TEST(NameRecord, CountsForAMinuteAfterItWasRead) {
    NameRecord record;
    record.read(limit(5), kServerMs, 1000);
    EXPECT_TRUE(record.now(61'000).isInForce());
    EXPECT_FALSE(record.now(61'001).isInForce());
    EXPECT_EQ(record.end(61'001), End::Unread);
    EXPECT_EQ(record.read(limit(5), kServerMs, 70'000), Change::Begun);
    record.read(limit(5), kServerMs, 100'000);
    EXPECT_TRUE(record.now(160'000).isInForce());
}

TEST(NameRecord, OneWorkerReadsIt) {
    NameRecord record;
    EXPECT_TRUE(record.isDue(1000));
    EXPECT_FALSE(record.isDue(1000));
    EXPECT_FALSE(record.isDue(1899));
    EXPECT_TRUE(record.isDue(1900));
    EXPECT_FALSE(record.isOverdue(3099));
    EXPECT_TRUE(record.isOverdue(3100));
    EXPECT_FALSE(record.isDue(3699));
    EXPECT_TRUE(record.isDue(3700));
    EXPECT_TRUE(record.mayTell(1000));
    EXPECT_FALSE(record.mayTell(60'999));
    EXPECT_TRUE(record.mayTell(61'000));
}

/// Its words, as a worker leaves them that is killed while it writes.
TEST(NameRecord, AHalfWrittenOneIsInForceUntilItIsReadAgain) {
    NameRecord whole;
    whole.read({What::Deny, 0, kServerMs + 10'000}, kServerMs, 1000);
    NameRecord half;
    half.read({What::Deny, 0, kServerMs + 10'000}, kServerMs, 1000);
    half.read({What::Allow, 0, kServerMs + 500}, kServerMs, 1000);
    // all that follows the first word is of the one before
    auto* words =
        reinterpret_cast<std::uint64_t*>(&half) + (sizeof half - 6 * sizeof(std::uint64_t)) / sizeof(std::uint64_t);
    const auto* before = reinterpret_cast<const std::uint64_t*>(&whole) +
                         (sizeof whole - 6 * sizeof(std::uint64_t)) / sizeof(std::uint64_t);
    words[1] = before[1];
    words[2] = before[2];
    EXPECT_EQ(half.now(2000).what, What::Allow);
    EXPECT_EQ(half.now(2000).untilMs, 0) << "its end is not known";
    EXPECT_EQ(half.leftMs(2000), 0);
    EXPECT_NE(half.read({What::Allow, 0, kServerMs + 1500}, kServerMs + 1000, 2000), Change::None);
    EXPECT_EQ(half.now(2000).untilMs, kServerMs + 1500);
    EXPECT_EQ(half.leftMs(2000), 500);
}

/// Readers never see words of two records as one.
TEST(NameRecord, IsWrittenByAnyWorkerAtAnyTime) {
    NameRecord record;
    const auto write = [&](unsigned seed) {
        std::mt19937 random(seed);
        for (int i = 0; i < 50'000; i++) {
            const auto n = static_cast<std::int64_t>(random() % 1000);
            record.read(n == 0 ? Override() : limit(n, kServerMs + 1000 * n), kServerMs, 1000);
        }
    };
    std::vector<std::thread> writers;
    for (unsigned i = 0; i < 3; i++) {
        writers.emplace_back(write, i);
    }
    for (int i = 0; i < 200'000; i++) {
        const Override seen = record.now(1000);
        EXPECT_TRUE(!seen.isInForce() || seen.untilMs == 0 || seen.untilMs == kServerMs + 1000 * seen.limit)
            << seen.limit << " " << seen.untilMs;
    }
    for (std::thread& each : writers) {
        each.join();
    }
    EXPECT_EQ(record.read(limit(7), kServerMs, 1000) == Change::None, false);
    EXPECT_EQ(record.now(1000).limit, 7);
}

}  // namespace
}  // namespace sliding_log
