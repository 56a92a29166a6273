#include "node/permits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "torn.hpp"

namespace sliding_log {
namespace {

std::atomic<std::uint64_t> gNow{0};

std::uint64_t clock() {
    return gNow;
}

constexpr std::string_view kKeysOfOneHash[] = {
    "rl:api:{aaaaaaaaaaaaaaaa}", "rl:api:{\141\141\244\107\306\173\271\322\141\141\244\107\306\173\271\322}"};

class PermitsTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kLifeMs = 600;
    static constexpr std::uint64_t kTookMs = 80;

    alignas(64) std::array<std::byte, 8 * Permits::kRecordBytes> memory{};
    Permits permits{memory.data(), memory.size()};
    Check check;
    Signature signature;

    PermitsTest() {
        gNow = 10'000;
        check.key = "rl:api:{a}";
        check.limit = 1000;
        check.windowMs = 60'000;
        check.permitLifeMs = kLifeMs;
        signature = signatureOf(check);
        permits.noteAdmitted(signature, gNow, kLifeMs, 1);
    }

    static Signature signatureOf(const Check& of) {
        Signature signature;
        signature.assign(7, {&of, 1});
        return signature;
    }
    /// More keys than there are records.
    void useOtherKeys() {
        for (int i = 0; i < 100; i++) {
            Check other = check;
            const std::string key = "rl:api:{" + std::to_string(i) + "}";
            other.key = key;
            gNow = gNow + 1;
            permits.noteAdmitted(signatureOf(other), gNow, kLifeMs, 1);
        }
    }

    std::uint32_t grant(std::uint32_t number, std::uint64_t lifeMs = kLifeMs) {
        return permits.grant(signature,
                             {.name = "name~p",
                              .permits = number,
                              .loggedMs = 5000,
                              .entries = number,
                              .remaining = 100,
                              .resetAt = gNow + 7000,
                              .endsAt = gNow + lifeMs},
                             gNow, kTookMs);
    }
    std::uint32_t endAll(std::uint64_t by) {
        const auto leftovers = permits.endAll(signature, by);
        return leftovers[0].permits + leftovers[1].permits;
    }
    /// After a request has used a permit.
    std::uint32_t wantedAhead(std::uint32_t& held) {
        return permits.wantedAhead(signature, gNow, kLifeMs, 50, gNow + 100, held);
    }
    std::optional<Permit> use() { return permits.use(signature, check, verdict, clock); }

    using Memory = std::array<std::byte, 8 * Permits::kRecordBytes>;

    void tearAll(const Memory& before, pid_t writer) {
        for (std::size_t at = 0; at < memory.size(); at += Permits::kRecordBytes) {
            tear(std::span(memory).subspan(at, Permits::kRecordBytes),
                 std::span(before).subspan(at, Permits::kRecordBytes), writer, random);
        }
    }

    Verdict verdict;
    std::mt19937 random{1};
};

TEST_F(PermitsTest, AreUsedInReverseOrder) {
    EXPECT_FALSE(use());
    ASSERT_NE(grant(3), 0U);
    for (const std::uint32_t position : {3U, 2U, 1U}) {
        const std::optional<Permit> permit = use();
        ASSERT_TRUE(permit);
        EXPECT_EQ(permit->position, position);
        EXPECT_EQ(permit->name.view(), "name~p");
        EXPECT_EQ(permit->loggedMs, 5000U);
        EXPECT_EQ(verdict.remaining, 100 + position - 1) << "unused permits count as remaining";
        EXPECT_EQ(verdict.resetMs, 7000);
        EXPECT_TRUE(verdict.hasRoom());
    }
    EXPECT_FALSE(use());
}

TEST_F(PermitsTest, EndAfterTheirLife) {
    grant(3);
    gNow = gNow + kLifeMs - 1;
    EXPECT_TRUE(use());
    gNow = gNow + 1;
    EXPECT_FALSE(use());
    EXPECT_EQ(endAll(gNow), 2U) << "unused permits are returned after their life";
}

struct Other {
    Permits* permits;
    const Signature* signature;
    const Check* check;
} gOther;

TEST_F(PermitsTest, AreReportedIfTakenTooLateAndNotReturned) {
    grant(3);
    gNow = gNow + kLifeMs;
    EXPECT_FALSE(use());
    gOther = {&permits, &signature, &check};
    const std::optional<Permit> late = permits.use(signature, check, verdict, [] {
        Verdict another;
        EXPECT_TRUE(gOther.permits->use(*gOther.signature, *gOther.check, another, [] { return gNow - 1; }));
        return gNow.load();
    });
    ASSERT_TRUE(late) << "another process took the next one, so it could not be put back";
    EXPECT_TRUE(late->hasEnded);
    EXPECT_EQ(late->position, 3U);
    EXPECT_EQ(endAll(gNow + kLifeMs), 1U);
}

TEST_F(PermitsTest, AreUsedByTheSameCheckOnly) {
    grant(3);
    Check other = check;
    other.limit = 999;
    EXPECT_FALSE(permits.use(signatureOf(other), other, verdict, clock));
    other = check;
    other.key = "rl:api:{b}";
    EXPECT_FALSE(permits.use(signatureOf(other), other, verdict, clock));
    EXPECT_TRUE(use());
}

TEST_F(PermitsTest, AreGivenBackIfUsedLast) {
    grant(3);
    const std::optional<Permit> third = use();
    const std::optional<Permit> second = use();
    EXPECT_FALSE(permits.giveBack(signature, check, *third)) << "only the permit that was used last can be given back";
    EXPECT_TRUE(permits.giveBack(signature, check, *second));
    EXPECT_EQ(use()->position, 2U);
    EXPECT_EQ(endAll(gNow + kLifeMs), 1U);
    EXPECT_FALSE(permits.giveBack(signature, check, *second)) << "the lot has ended";
}

TEST_F(PermitsTest, EndOncePerLot) {
    const std::uint32_t lot = grant(5);
    use();
    EXPECT_EQ(permits.end(signature, lot), 4U);
    EXPECT_EQ(permits.end(signature, lot), 0U);
    EXPECT_FALSE(use());
    const std::uint32_t next = grant(2);
    EXPECT_NE(next, lot);
    EXPECT_EQ(permits.end(signature, lot), 0U);
    EXPECT_TRUE(use());
}

TEST_F(PermitsTest, AreOfTwoLotsAtMost) {
    const std::uint32_t later = grant(2, 2 * kLifeMs);
    const std::uint32_t sooner = grant(2);
    EXPECT_NE(later, 0U);
    EXPECT_NE(sooner, 0U);
    EXPECT_EQ(grant(2), 0U);
    EXPECT_EQ(use()->lot, sooner) << "the lot that ends first is used first";
    EXPECT_EQ(use()->lot, sooner);
    EXPECT_EQ(use()->lot, later);
    EXPECT_NE(grant(2), 0U);
    EXPECT_EQ(endAll(gNow), 0U) << "none has ended";
    EXPECT_EQ(permits.end(signature, later), 1U);
    EXPECT_EQ(endAll(gNow + kLifeMs), 2U);
    EXPECT_FALSE(use());
}

TEST_F(PermitsTest, AreLeftBesidesWhatACallFoundToRemain) {
    grant(3);
    grant(5, 2 * kLifeMs);
    EXPECT_EQ(permits.noteRemaining(signature, gNow, 4999, 40), 0U) << "they were logged later";
    use();
    EXPECT_EQ(verdict.remaining, 107);
    EXPECT_EQ(permits.noteRemaining(signature, gNow, 5000, 60), 7U);
    use();
    EXPECT_EQ(verdict.remaining, 66) << "the permits of both lots";
    EXPECT_EQ(permits.noteRemaining(signature, gNow + kLifeMs, 5000, 50), 5U) << "the first lot has ended";
}

TEST_F(PermitsTest, OfTwoLotsThatEndAtOnceCountAsRemaining) {
    grant(3);
    use();
    grant(5);
    EXPECT_EQ(permits.noteRemaining(signature, gNow, 5000, 60), 7U);
    for (std::int64_t left = 6; left >= 0; left--) {
        const std::optional<Permit> permit = use();
        EXPECT_EQ(verdict.remaining, 60 + left);
        EXPECT_FALSE(permit->asksAhead && left >= 5) << "the next lot is there";
    }
}

TEST_F(PermitsTest, OfTheNextLotAreUsedWhenTheFirstHasEnded) {
    grant(3);
    gNow = gNow + kLifeMs / 2;
    const std::uint32_t next = grant(3);
    gNow = gNow + kLifeMs / 2;
    EXPECT_EQ(use()->lot, next);
    EXPECT_EQ(endAll(gNow), 3U);
    EXPECT_TRUE(use()) << "the next lot lasts";
}

/// Requests every 10 ms: at most 122 ms before the end, one and a half of a call and two, the next lot is due.
TEST_F(PermitsTest, AreAskedForAheadBeforeTheLotEnds) {
    std::uint32_t held = 0;
    grant(1000);
    permits.noteAdmitted(signature, gNow, kLifeMs, 30);
    const std::uint64_t end = gNow + kLifeMs;
    for (std::uint32_t used = 1; gNow < end - 10; used++) {
        gNow = gNow + 10;
        EXPECT_EQ(use()->asksAhead, gNow + 122 >= end) << end - gNow;
    }
    EXPECT_EQ(wantedAhead(held), 50U) << "as many as were used, at most as many as it may be";
    EXPECT_EQ(held, 1000U - 59);
    EXPECT_FALSE(use()->asksAhead) << "a call asks";
    EXPECT_EQ(wantedAhead(held), 0U);
    permits.endAsking(signature, gNow + 5);
    EXPECT_FALSE(use()->asksAhead) << "none were granted, just now";
    gNow = gNow + 5;
    EXPECT_TRUE(use()->asksAhead);
    grant(10);
    EXPECT_FALSE(use()->asksAhead) << "the next lot is there";
}

TEST_F(PermitsTest, AreAskedForAheadBeforeTheLotIsUsedUp) {
    grant(100);
    bool asked = false;
    for (int used = 0; used < 100; used++) {  // which takes 200 ms
        gNow = gNow + used % 2 * 4;
        const bool asks = use()->asksAhead;
        EXPECT_TRUE(!asks || used > 25) << used;
        asked = asked || asks;
    }
    EXPECT_TRUE(asked);
}

TEST_F(PermitsTest, AreNotAskedForAheadIfTheKeyIsIdleOrTheLifeIsShort) {
    grant(100);
    use();
    gNow = gNow + 490;
    EXPECT_FALSE(use()->asksAhead) << "the request before it was long ago";
    gNow = gNow + 1;
    EXPECT_TRUE(use()->asksAhead);
    check.permitLifeMs = 2 * kTookMs;
    EXPECT_FALSE(use()->asksAhead) << "the lot would end before it is of use";
}

TEST_F(PermitsTest, AreRequestedInTheNumberUsedInALife) {
    const auto wanted = [&](std::uint32_t most) {
        const std::uint32_t some = permits.wanted(signature, gNow, kLifeMs, most, gNow + 100);
        permits.endAsking(signature);
        return some;
    };
    EXPECT_EQ(wanted(50), 1U);
    permits.noteAdmitted(signature, gNow, kLifeMs, 29);
    EXPECT_EQ(wanted(50), 30U);
    EXPECT_EQ(wanted(20), 20U);
    gNow = gNow + kLifeMs;
    EXPECT_EQ(wanted(50), 30U) << "the number of the previous life";
    permits.noteAdmitted(signature, gNow, kLifeMs, 4);
    EXPECT_EQ(wanted(50), 30U);
    gNow = gNow + kLifeMs;
    EXPECT_EQ(wanted(50), 4U);
    gNow = gNow + 2 * kLifeMs;
    EXPECT_EQ(wanted(50), 0U) << "the key was not used in the latest life";
    permits.noteAdmitted(signature, gNow, kLifeMs, 1'000'000);
    EXPECT_EQ(wanted(1'000'000), Permits::kMostPermits);
    EXPECT_EQ(permits.wanted(signature, gNow - 1, kLifeMs, 50, gNow), 50U) << "the clock was read earlier";
}

TEST_F(PermitsTest, AreRequestedByOneCallAtATime) {
    EXPECT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow + 100), 1U);
    EXPECT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow + 100), 0U);
    gNow = gNow + 100;
    EXPECT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow + 100), 1U) << "the worker that asked was killed";
    grant(1);
    EXPECT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow + 100), 0U) << "there are some";
    use();
    EXPECT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow + 100), 2U);
}

TEST_F(PermitsTest, EndWhenTheLogIsGone) {
    grant(3);
    permits.noteEntries(7, check.key, 2, gNow);
    EXPECT_TRUE(use()) << "the call may have been executed before the lot was granted";
    permits.noteEntries(7, check.key, 3, gNow + 1);
    EXPECT_TRUE(use());
    permits.noteEntries(8, check.key, 0, gNow + 1);
    EXPECT_TRUE(use()) << "a log of another store";
    use();
    grant(3);
    permits.noteEntries(7, check.key, 2, gNow + 1);
    EXPECT_FALSE(use());
}

/// A key with the same 64-bit hash as another one. Anybody can calculate it: two blocks that cancel each other when the
/// hash mixes them.
TEST_F(PermitsTest, StayWhenAnotherKeyOfTheHashHasNoEntries) {
    check.key = kKeysOfOneHash[0];
    signature = signatureOf(check);
    ASSERT_EQ(Signature::hashOfLog(kKeysOfOneHash[0]), Signature::hashOfLog(kKeysOfOneHash[1]));
    permits.noteAdmitted(signature, gNow, kLifeMs, 1);
    grant(3);
    permits.noteEntries(7, kKeysOfOneHash[1], 0, gNow + 1);
    EXPECT_TRUE(use());
    permits.noteEntries(7, kKeysOfOneHash[0], 0, gNow + 1);
    EXPECT_FALSE(use());
}

/// A worker is killed at any of its writes, of a grant or of a new key.
TEST_F(PermitsTest, AreGrantedAgainWhereAWorkerWasKilled) {
    OtherProcess killed;
    killed.end();
    for (int round = 0; round < 500; round++) {
        const Memory before = memory;
        if (round % 2 == 0) {
            ASSERT_NE(grant(3), 0U) << round;
        } else {
            useOtherKeys();
        }
        tearAll(before, killed.id());
        EXPECT_FALSE(use()) << "what was being written is not used, " << round;
        EXPECT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow), 0U) << "nor asked for, " << round;
        permits.noteAdmitted(signature, gNow, kLifeMs, 5);
        ASSERT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow), 5U) << round;
        const std::uint32_t lot = grant(4);
        ASSERT_NE(lot, 0U) << round;
        ASSERT_EQ(use()->position, 4U) << round;
        ASSERT_EQ(permits.end(signature, lot), 3U) << round;
    }
}

TEST_F(PermitsTest, AreNotAskedForWhileAWorkerIsStoppedThatWrites) {
    OtherProcess stopped;
    permits.noteAdmitted(signature, gNow, kLifeMs, 5);
    for (int round = 0; round < 100; round++) {
        const Memory before = memory;
        const std::uint32_t lot = grant(3);
        ASSERT_NE(lot, 0U);
        const Memory after = memory;
        tearAll(before, stopped.id());
        const Memory torn = memory;
        EXPECT_FALSE(use());
        EXPECT_EQ(permits.wanted(signature, gNow, kLifeMs, 50, gNow), 0U);
        EXPECT_EQ(grant(3), 0U);
        EXPECT_TRUE(memory == torn) << "nobody else writes";
        memory = after;  // it continues
        EXPECT_EQ(use()->position, 3U);
        EXPECT_EQ(permits.end(signature, lot), 2U);
    }
}

TEST_F(PermitsTest, KeepTheirRecordWhileOtherKeysAreUsed) {
    grant(3);
    useOtherKeys();
    EXPECT_TRUE(use());
    gNow = gNow + 10 * kLifeMs;  // a killed worker has left two permits
    useOtherKeys();
    EXPECT_EQ(grant(1), 0U) << "its record was replaced";
}

TEST_F(PermitsTest, AreNotGrantedWithoutMemory) {
    Permits none;
    none.noteAdmitted(signature, gNow, kLifeMs, 5);
    none.noteEntries(7, check.key, 0, gNow);
    EXPECT_EQ(none.wanted(signature, gNow, kLifeMs, 50, gNow + 100), 0U);
    EXPECT_FALSE(none.use(signature, check, verdict, clock));
}

TEST_F(PermitsTest, AreUsedOnceInManyThreads) {
    constexpr std::uint32_t kLots = 300;
    constexpr std::uint32_t kPermits = 100;
    std::atomic<std::uint32_t> used{0};
    std::atomic<bool> ends{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) {
        threads.emplace_back([&] {
            Verdict mine;
            while (!ends) {
                const std::optional<Permit> permit = permits.use(signature, check, mine, clock);
                if (permit && !(permit->position % 7 == 0 && permits.giveBack(signature, check, *permit))) {
                    used++;
                }
            }
        });
    }
    std::uint32_t returned = 0;
    for (std::uint32_t i = 0; i < kLots; i++) {
        const std::uint32_t lot = grant(kPermits);
        ASSERT_NE(lot, 0U);
        std::this_thread::yield();
        returned += permits.end(signature, lot);
    }
    ends = true;
    for (std::thread& each : threads) {
        each.join();
    }
    EXPECT_EQ(used + returned, kLots * kPermits);
}

}  // namespace
}  // namespace sliding_log
