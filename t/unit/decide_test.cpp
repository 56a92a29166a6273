#include "local/decide.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cells.hpp"
#include "checks.hpp"
#include "limit/bounds.hpp"

namespace sliding_log {
namespace {

/// Logs by key, in the memory of the test.
class Logs {
  public:
    struct Answer {
        std::vector<Verdict> verdicts;
        std::uint64_t loggedMs = 0;
        bool logged = true;

        bool isAdmitted() const {
            return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& each) { return each.hasRoom(); });
        }
    };

    Answer ask(std::uint64_t now, const std::vector<Check>& checks, std::string_view unique = "name") {
        Answer answer;
        answer.verdicts.resize(checks.size());
        std::vector<LogState*> states;
        for (const Check& check : checks) {
            states.push_back(&of(check, now));
        }
        answer.logged = decide(checks, states, answer.verdicts, now, unique, answer.loggedMs,
                               [&](LogState& state, std::size_t cells) { return grow(state, cells); });
        for (LogState* state : states) {
            cells_.take(state->takeSpare(now));
        }
        return answer;
    }

    Verdict ask(std::uint64_t now, const Check& check) { return ask(now, std::vector{check}).verdicts[0]; }

    void takeBack(std::uint64_t now, const Check& check, std::uint64_t loggedMs, std::uint64_t takenMs,
                  std::string_view unique = "name") {
        LogState& state = of(check, now);
        sliding_log::takeBack(state, check, now, unique, loggedMs, takenMs);
        cells_.take(state.takeSpare(now));
    }

    LogState& of(const Check& check, std::uint64_t now) {
        std::span<std::uint8_t> place = places_[std::string(check.key)];
        auto [log, isNew] = states_.try_emplace(std::string(check.key), check, now, place);
        if (!log->second.suits(check)) {
            cells_.take(log->second.takeAll());
            log->second = LogState(check, now, place);
        }
        return log->second;
    }

    std::size_t mostCells = 10'000;

  private:
    bool grow(LogState& state, std::size_t cells) {
        if (cells_.out() + cells > mostCells) {
            return false;
        }
        for (; cells > 0; cells--) {
            state.give(cells_.make());
        }
        return true;
    }

    std::map<std::string, LogState> states_;
    std::map<std::string, std::array<std::uint8_t, 5>> places_;
    Cells cells_;
};

/// Those with a window; quota_form_test.cpp and renew_test.cpp have the others.
const std::vector<Algorithm> kAll = [] {
    std::vector<Algorithm> all;
    for (const AlgorithmRow& row : kAlgorithms) {
        if (row.takes.has(Parameter::Window)) {
            all.push_back(row.algorithm);
        }
    }
    return all;
}();

TEST(Decide, ReturnsRemainingResetAndRetry) {
    Logs logs;
    const Check two = check(Algorithm::Log, 2, 1000);
    const auto returns = [&](std::uint64_t now, std::int64_t remaining, std::int64_t reset, std::int64_t retry) {
        const Verdict verdict = logs.ask(now, two);
        EXPECT_EQ(verdict.remaining, remaining) << "at " << now;
        EXPECT_EQ(verdict.resetMs, reset) << "at " << now;
        EXPECT_EQ(verdict.retryMs, retry) << "at " << now;
    };
    returns(5000, 1, 1000, 0);
    returns(5300, 0, 700, 0);
    returns(5999, 0, 1, 1);
    returns(6000, 0, 300, 0);
    returns(6000, 0, 300, 300);
}

TEST(Decide, ALimitOfZeroDeniesEveryRequest) {
    for (const Algorithm algorithm : kAll) {
        Logs logs;
        const Check none = with(check(algorithm, 0, 1000), &Check::blockMs, 50);
        EXPECT_EQ(logs.ask(100, none).retryMs, Verdict::kNever);
        EXPECT_EQ(logs.ask(100, with(none, &Check::cost, 0)).retryMs, Verdict::kNever);
        EXPECT_EQ(logs.ask(100, none).resetMs, 1000);
        EXPECT_EQ(logs.ask(120, with(with(none, &Check::limit, 1), &Check::burst, 1)).retryMs, 0)
            << "a limit of 0 neither blocks nor takes an entry";
    }
}

TEST(Decide, ACostIsTakenAsAWhole) {
    for (const Algorithm algorithm : {Algorithm::Log, Algorithm::Counter, Algorithm::Bucket}) {
        Logs logs;
        const Check ten = check(algorithm, 10, 1000);
        EXPECT_EQ(logs.ask(2000, with(ten, &Check::cost, 6)).remaining, 4);
        EXPECT_GT(logs.ask(2000, with(ten, &Check::cost, 5)).retryMs, 0);
        EXPECT_EQ(logs.ask(2000, with(ten, &Check::cost, 11)).retryMs, Verdict::kNever);
        EXPECT_EQ(logs.ask(2000, with(ten, &Check::cost, 0)).remaining, 4);
        EXPECT_EQ(logs.ask(2000, with(ten, &Check::cost, 4)).remaining, 0);
        EXPECT_EQ(logs.ask(2000, with(ten, &Check::cost, 0)).retryMs, 0) << "a cost of 0 has room in a full log";
    }
}

TEST(Decide, TheWaitForACostEndsWhenEnoughEntriesHaveLeft) {
    Logs logs;
    const Check five = check(Algorithm::Log, 5, 1000);
    for (const std::uint64_t now : {100, 200, 300, 400}) {
        logs.ask(now, five);
    }
    // 4 - 5 + 4 = the third oldest
    EXPECT_EQ(logs.ask(500, with(five, &Check::cost, 4)).retryMs, 300 + 1000 - 500);
    EXPECT_EQ(logs.ask(1300, with(five, &Check::cost, 4)).retryMs, 0);
}

TEST(Decide, CountAllCountsDeniedRequests) {
    Logs logs;
    Check two = with(check(Algorithm::Log, 2, 1000), &Check::cap, 3);
    two.countsAll = true;
    logs.ask(0, two);
    logs.ask(10, two);
    // the third: 0 10 20, one too many: the second oldest must leave
    EXPECT_EQ(logs.ask(20, two).retryMs, 10 + 1000 - 20);
    // the fourth: 10 20 30 after the trim
    EXPECT_EQ(logs.ask(30, two).retryMs, 20 + 1000 - 30);
    EXPECT_EQ(logs.ask(1019, two).retryMs, 30 + 1000 - 1019) << "20 30 1019";
    EXPECT_EQ(logs.ask(1031, with(two, &Check::cost, 2)).retryMs, 1000) << "1019 1031 1031";
    EXPECT_EQ(logs.ask(1031, with(two, &Check::cost, 1'000'000'000'000)).retryMs, Verdict::kNever);
    EXPECT_EQ(logs.ask(1032, with(two, &Check::limit, 3)).retryMs, 999) << "1031 1031 1032";
}

TEST(Decide, CountAllCountsRequestsDeniedByAnotherLog) {
    Logs logs;
    Check counting = with(check(Algorithm::Log, 10, 1000, "counting"), &Check::cap, 12);
    counting.countsAll = true;
    const Check full = check(Algorithm::Log, 1, 1000, "full");
    const Check plain = check(Algorithm::Log, 10, 1000, "plain");
    logs.ask(0, full);
    const Logs::Answer answer = logs.ask(1, {counting, full, plain});
    EXPECT_EQ(answer.verdicts[0].remaining, 9);
    EXPECT_EQ(answer.verdicts[0].retryMs, 0);
    EXPECT_EQ(answer.verdicts[1].retryMs, 999);
    EXPECT_EQ(answer.verdicts[2].remaining, 10);
}

TEST(Decide, TheCapBoundsCountAllInEachAlgorithm) {
    for (const Algorithm algorithm : {Algorithm::Counter, Algorithm::Bucket}) {
        Logs logs;
        Check ten = with(check(algorithm, 10, 1000), &Check::cap, 12);
        ten.countsAll = true;
        for (int i = 0; i < 100; i++) {
            logs.ask(5000, ten);
        }
        // counter: 12 * (1 - share) + 1 <= 10 from a share of 1/4 on; bucket: 3 of 10 a second are missing
        EXPECT_EQ(logs.ask(5000, ten).retryMs, algorithm == Algorithm::Counter ? 1250 : 300);
    }
    Logs logs;
    Check sampled = with(check(Algorithm::Sampled, 20, 1000), &Check::cap, 24);
    sampled.countsAll = true;
    sampled.cost = 20;
    for (int i = 0; i < 100; i++) {
        logs.ask(5000 + i, sampled);
    }
    // the log keeps 3 of 10 entries, those of the last requests; all must leave
    EXPECT_EQ(logs.ask(5100, sampled).retryMs, 1000);
    EXPECT_EQ(logs.ask(5100, with(sampled, &Check::cost, 0)).retryMs, 999) << "5099 5100 5100: one is too many";
}

TEST(Decide, ABlockOutlastsTheLogAndIsNotExtended) {
    for (const Algorithm algorithm : {Algorithm::Log, Algorithm::Counter, Algorithm::Bucket}) {
        Logs logs;
        const Check one = with(check(algorithm, 1, 100), &Check::blockMs, 5000);
        EXPECT_EQ(logs.ask(1000, one).retryMs, 0);
        EXPECT_EQ(logs.ask(1050, one).retryMs, 5000);
        EXPECT_EQ(logs.ask(3000, one).retryMs, 3050);
        EXPECT_EQ(logs.ask(3000, with(one, &Check::blockMs, 0)).retryMs, 3050) << "the key is blocked";
        EXPECT_EQ(logs.ask(3000, with(one, &Check::cost, 0)).retryMs, 3050);
        EXPECT_EQ(logs.ask(3000, with(one, &Check::cost, 2)).retryMs, Verdict::kNever);
        EXPECT_EQ(logs.ask(6049, one).retryMs, 1);
        EXPECT_EQ(logs.of(one, 0).endsAt(), 6050u);
        EXPECT_EQ(logs.ask(6050, one).retryMs, 0);
    }
}

/// Six logins at once, room for five: the sixth is denied and starts a block. Then the entries of the others are given
/// back.
TEST(Decide, ABlockEndsWhenEntriesAreGivenBack) {
    for (const Algorithm algorithm : kAll) {
        Check login = with(check(algorithm, 5, 60'000), &Check::blockMs, 600'000);
        login.sample = 1;
        Logs logs;
        for (std::uint64_t now = 1'000; now < 1'005; now++) {
            EXPECT_EQ(logs.ask(now, login).retryMs, 0);
        }
        EXPECT_EQ(logs.ask(1'010, login).retryMs, 600'000);
        logs.takeBack(1'020, login, 1'002, 1'011);
        EXPECT_GT(logs.ask(1'030, login).retryMs, 0) << "the block started before the entry was taken, so it continues";
        logs.takeBack(1'040, login, 1'003, 1'003);
        EXPECT_EQ(logs.ask(1'050, login).retryMs, 0)
            << "the block started after the entry was taken, and there is room";
        if (algorithm == Algorithm::Log) {
            logs.takeBack(70'000, login, 1'004, 1'004);
            EXPECT_EQ(logs.ask(70'001, login).retryMs, 0);
        }
    }
    for (const Algorithm algorithm : kAll) {
        Check login = with(check(algorithm, 5, 60'000), &Check::blockMs, 600'000);
        login.sample = 1;
        Logs logs;
        logs.ask(999, with(login, &Check::cost, 2));
        logs.ask(1'000, with(login, &Check::cost, 3));
        EXPECT_EQ(logs.ask(1'010, with(login, &Check::limit, 3)).retryMs, 600'000);
        const Check smaller = with(with(login, &Check::limit, 1), &Check::burst, 1);
        logs.takeBack(1'020, smaller, 999, 999);
        EXPECT_GT(logs.ask(1'030, login).retryMs, 0) << "four entries are left, so there is no room";
        logs.takeBack(1'040, smaller, 5, 5);
        EXPECT_GT(logs.ask(1'050, login).retryMs, 0) << "no entry has left";
    }
}

TEST(Decide, ASmallerCapKeepsTheEntriesOfALargerLimit) {
    for (const Algorithm algorithm : kAll) {
        Logs logs;
        Check large = with(check(algorithm, 20, 60'000), &Check::cap, 24);
        Check small = with(with(with(large, &Check::limit, 10), &Check::burst, 10), &Check::cap, 12);
        small.sample = large.sample = 1;
        small.countsAll = true;
        for (std::uint64_t now = 60'000; now < 60'020; now++) {
            EXPECT_EQ(logs.ask(now, large).retryMs, 0);
        }
        EXPECT_GT(logs.ask(60'050, with(small, &Check::cost, 5)).retryMs, 0);
        const Verdict denied = logs.ask(60'060, large);
        EXPECT_GT(denied.retryMs, 0);
        if (algorithm == Algorithm::Log || algorithm == Algorithm::Compact || algorithm == Algorithm::Sampled) {
            EXPECT_EQ(denied.resetMs, 60'005 + 60'000 - 60'060) << "the five oldest were replaced";
        }
    }
}

TEST(Decide, OnlyADenyingLogBlocks) {
    Logs logs;
    const Check blocking = with(check(Algorithm::Log, 10, 100, "blocking"), &Check::blockMs, 5000);
    const Check full = check(Algorithm::Log, 1, 100, "full");
    EXPECT_TRUE(logs.ask(1000, {blocking, full}).isAdmitted());
    EXPECT_FALSE(logs.ask(1001, {blocking, full}).isAdmitted());
    EXPECT_EQ(logs.ask(1002, blocking).retryMs, 0);
    EXPECT_EQ(logs.ask(1003, with(blocking, &Check::cost, 11)).retryMs, Verdict::kNever);
    EXPECT_EQ(logs.ask(1004, blocking).retryMs, 4999) << "a cost above the limit starts a block";
}

TEST(Decide, ADelayReservesTheFirstTimeWithRoom) {
    Logs logs;
    const Check two = with(with(check(Algorithm::Log, 2, 1000), &Check::delayMs, 1500), &Check::aheadMs, 1500);
    EXPECT_EQ(logs.ask(0, two).delayMs, 0);
    EXPECT_EQ(logs.ask(400, two).delayMs, 0);
    EXPECT_EQ(logs.ask(500, two).delayMs, 500) << "the first entry leaves";
    EXPECT_EQ(logs.ask(500, two).delayMs, 900) << "the second entry leaves";
    const Verdict denied = logs.ask(500, with(two, &Check::delayMs, 1499));
    EXPECT_EQ(denied.retryMs, 1500) << "three of 0 400 1000 1400 must leave";
    EXPECT_EQ(logs.ask(500, two).delayMs, 1500) << "the first reservation leaves";
}

TEST(Decide, AHeldRequestIsLoggedInAllLogsAtItsReservation) {
    Logs logs;
    const Check slow = with(with(check(Algorithm::Log, 1, 1000, "slow"), &Check::delayMs, 2000), &Check::aheadMs, 2000);
    const Check other = with(check(Algorithm::Log, 2, 500, "other"), &Check::aheadMs, 2000);
    logs.ask(100, slow);
    const Logs::Answer held = logs.ask(200, {other, slow});
    EXPECT_TRUE(held.isAdmitted());
    EXPECT_EQ(held.loggedMs, 1100u);
    EXPECT_EQ(held.verdicts[0].delayMs, 900);
    EXPECT_EQ(logs.ask(200, other).remaining, 0) << "the reservation counts";
    EXPECT_EQ(logs.ask(700, other).remaining, 0) << "the reservation counts after earlier entries have left";
    EXPECT_EQ(logs.ask(800, other).retryMs, 400);
    logs.takeBack(800, other, held.loggedMs, 200);
    logs.takeBack(800, slow, held.loggedMs, 200);
    EXPECT_EQ(logs.ask(800, other).retryMs, 0);
    EXPECT_EQ(logs.ask(1100, slow).delayMs, 0);
}

TEST(Decide, ALogWithoutDelayDeniesARequestThatAnotherLogHolds) {
    Logs logs;
    const Check slow = with(with(check(Algorithm::Log, 1, 1000, "slow"), &Check::delayMs, 2000), &Check::aheadMs, 2000);
    const Check hard = check(Algorithm::Log, 1, 100, "hard");
    EXPECT_TRUE(logs.ask(0, {slow, hard}).isAdmitted());
    const Logs::Answer denied = logs.ask(50, {slow, hard});
    EXPECT_FALSE(denied.isAdmitted());
    EXPECT_EQ(denied.verdicts[0].retryMs, 950);
    EXPECT_EQ(denied.verdicts[1].retryMs, 50);
    EXPECT_EQ(logs.ask(100, slow).delayMs, 900) << "a denied request has no reservation";
}

TEST(Decide, ABucketAndACounterTakeReservations) {
    Logs logs;
    const auto delayed = [](Algorithm algorithm) {
        return with(with(check(algorithm, 2, 1000), &Check::delayMs, 3000), &Check::aheadMs, 3000);
    };
    const Check bucket = delayed(Algorithm::Bucket);
    EXPECT_EQ(logs.ask(100, with(bucket, &Check::cost, 2)).delayMs, 0);
    EXPECT_EQ(logs.ask(100, bucket).delayMs, 500);
    EXPECT_EQ(logs.ask(100, bucket).delayMs, 1000);
    EXPECT_EQ(logs.ask(350, with(bucket, &Check::cost, 2)).delayMs, 1750);

    const Check counter = delayed(Algorithm::Counter);
    EXPECT_EQ(logs.ask(500, with(counter, &Check::cost, 2)).delayMs, 0);
    EXPECT_EQ(logs.ask(500, counter).delayMs, 1000) << "2 * 0.5 + 1";
    EXPECT_EQ(logs.ask(500, counter).delayMs, 1500) << "2 * 0 + 1 + 1: in the next window";
    EXPECT_EQ(logs.ask(500, counter).delayMs, 2500) << "after both reservations";
}

TEST(Decide, EntriesTooFarAheadCountAsNow) {
    Logs logs;
    const Check two = with(with(check(Algorithm::Log, 1, 1000), &Check::delayMs, 5000), &Check::aheadMs, 5000);
    logs.ask(0, two);
    EXPECT_EQ(logs.ask(10, two).delayMs, 990);
    EXPECT_EQ(logs.ask(20, two).delayMs, 1980);
    const Check without = check(Algorithm::Log, 1, 1000);
    EXPECT_EQ(logs.ask(30, without).retryMs, 1000);
    EXPECT_EQ(logs.ask(1030, without).retryMs, 0);
}

TEST(Decide, AnotherAlgorithmStartsANewLog) {
    for (const Algorithm before : kAll) {
        for (const Algorithm after : kAll) {
            Logs logs;
            const Check first = with(check(before, 1000, 1000), &Check::cost, 1000);
            logs.ask(0, first);
            EXPECT_EQ(logs.ask(1, with(check(after, 1000, 1000), &Check::cost, 1000)).retryMs == 0,
                      !LogState::areAlike(before, after));
        }
    }
}

TEST(Decide, NothingIsLoggedWithoutMemory) {
    Logs logs;
    const Check large = check(Algorithm::Log, 1000, 1000, "large");
    const Check small = check(Algorithm::Log, 1000, 1000, "small");
    for (std::uint64_t now = 0; now < 6; now++) {
        logs.ask(now, large);
    }
    logs.mostCells = 0;
    EXPECT_FALSE(logs.ask(6, {small, large}).logged);
    EXPECT_EQ(logs.ask(6, small).remaining, 999);
    Check counting = with(large, &Check::cost, 1001);
    counting.countsAll = true;
    EXPECT_EQ(logs.ask(6, counting).retryMs, Verdict::kNever) << "a request is denied without logging its entries";
}

TEST(Decide, ALogEndsWhenNoEntryCounts) {
    for (const Algorithm algorithm : kAll) {
        Logs logs;
        const Check ten = with(with(with(check(algorithm, 10, 1000), &Check::delayMs, 9000), &Check::aheadMs, 9000),
                               &Check::cost, 10);
        LogState& state = logs.of(ten, 500);
        EXPECT_LE(state.endsAt(), 500u);
        logs.ask(500, ten);
        EXPECT_EQ(state.endsAt(), algorithm == Algorithm::Counter ? 2000u : 1500u);
        EXPECT_EQ(logs.ask(500, ten).delayMs, algorithm == Algorithm::Counter ? 1500 : 1000);
        EXPECT_EQ(state.endsAt(), algorithm == Algorithm::Counter ? 4000u : 2500u);
    }
}

TEST(Decide, TheLargestNumbersDoNotOverflow) {
    constexpr std::uint64_t kNow = 60 * kLongestTimeMs;
    for (const Algorithm algorithm : kAll) {
        Logs logs;
        Check most = check(algorithm, kLargestCount, kLongestTimeMs);
        most.sample = kLargestCount;
        most.delayMs = most.aheadMs = most.blockMs = kLongestTimeMs;
        EXPECT_EQ(logs.ask(kNow, most).retryMs, 0);
        EXPECT_EQ(logs.ask(kNow, with(most, &Check::cost, kLargestCount + 1)).retryMs, Verdict::kNever);
        EXPECT_EQ(logs.ask(kNow, with(most, &Check::cost, 0)).retryMs, kLongestTimeMs) << "blocked";
        if (algorithm == Algorithm::Counter || algorithm == Algorithm::Bucket) {
            EXPECT_EQ(logs.ask(kNow + kLongestTimeMs, with(most, &Check::cost, kLargestCount - 1)).remaining,
                      1 - (algorithm == Algorithm::Counter));
        }
    }
}

// ---- compared with a simple model

/// The log of a key, as documented for the algorithm. It searches times ms by ms.
struct Naive {
    std::vector<std::uint64_t> times;              // Log, Sampled
    std::map<std::uint64_t, std::int64_t> counts;  // Counter
    std::uint64_t latest = 0;                      // Counter
    std::int64_t drops = 0;                        // Bucket: `limit` are added each ms, `windowMs` are a token
    std::uint64_t dropsAt = 0;                     // Bucket; 0: a new bucket
    std::uint64_t blockedUntil = 0;
    std::uint64_t blockedSince = 0;

    std::int64_t weight(const Check& q) const { return q.algorithm == Algorithm::Sampled ? q.sample : 1; }
    std::int64_t cap(const Check& q) const { return (q.cap + weight(q) - 1) / weight(q); }

    std::int64_t countFrom(std::uint64_t index) const {
        std::int64_t all = 0;
        for (auto from = counts.lower_bound(index); from != counts.end(); ++from) {
            all += from->second;
        }
        return all;
    }

    /// Used units at that time; `windowMs` units are a request.
    std::int64_t used(const Check& q, std::uint64_t now) const {
        const auto window = static_cast<std::uint64_t>(q.windowMs);
        if (q.algorithm == Algorithm::Bucket) {
            const auto elapsed = static_cast<std::int64_t>(now - dropsAt);
            return dropsAt == 0 ? 0 : q.burst * q.windowMs - std::min(drops + elapsed * q.limit, q.burst * q.windowMs);
        }
        if (q.algorithm == Algorithm::Counter) {
            const auto before = counts.find(now / window - 1);
            const auto rest = static_cast<std::int64_t>(window - now % window);
            return countFrom(now / window) * q.windowMs + (before == counts.end() ? 0 : before->second * rest);
        }
        return weight(q) * q.windowMs *
               std::count_if(times.begin(), times.end(), [&](std::uint64_t time) { return time + window > now; });
    }

    std::int64_t size(const Check& q) const { return q.algorithm == Algorithm::Bucket ? q.burst : q.limit; }
    bool hasRoom(const Check& q, std::uint64_t now, std::int64_t cost) const {
        return used(q, now) + cost * q.windowMs <= size(q) * q.windowMs;
    }
    std::uint64_t firstRoom(const Check& q, std::uint64_t from, std::int64_t cost) const {
        while (!hasRoom(q, from, cost)) {
            from++;
        }
        return from;
    }
    bool isNever(const Check& q) const { return q.limit == 0 || q.cost > size(q); }

    std::uint64_t reservedAt(const Check& q, std::uint64_t now) const {
        std::uint64_t from = std::max(now, latest);
        if (!times.empty()) {
            from = std::max(from, times.back());
        }
        return firstRoom(q, from, q.cost);
    }

    std::int64_t remaining(const Check& q, std::uint64_t now) const {
        return std::max<std::int64_t>((size(q) * q.windowMs - used(q, now)) / q.windowMs, 0);
    }

    void advance(const Check& q, std::uint64_t now) {
        std::erase_if(times, [&](std::uint64_t time) { return time + static_cast<std::uint64_t>(q.windowMs) <= now; });
        if (q.algorithm == Algorithm::Bucket) {
            drops = q.burst * q.windowMs - used(q, now);
            dropsAt = now;
        }
    }
    void add(const Check& q, std::uint64_t time, std::int64_t entries) {
        if (q.algorithm == Algorithm::Bucket) {
            drops -= entries * q.windowMs;
        } else if (q.algorithm == Algorithm::Counter) {
            counts[time / static_cast<std::uint64_t>(q.windowMs)] += entries;
            latest = entries > 0 ? std::max(latest, time) : latest;
        } else {
            times.insert(std::upper_bound(times.begin(), times.end(), time), static_cast<std::size_t>(entries), time);
        }
    }

    void addDenied(const Check& q, std::uint64_t now, std::int64_t entries) {
        if (q.algorithm == Algorithm::Bucket) {
            const std::int64_t before = drops;
            add(q, now, entries);
            drops = q.cap == 0 ? drops : std::max(drops, std::min(before, (q.burst - q.cap) * q.windowMs));
        } else if (q.algorithm == Algorithm::Counter) {
            const std::int64_t here = countFrom(now / static_cast<std::uint64_t>(q.windowMs));
            add(q, now, q.cap == 0 ? entries : std::clamp<std::int64_t>(q.cap - here, 0, entries));
        } else {
            const auto longest = static_cast<std::int64_t>(times.size());
            add(q, now, entries);
            while (q.cap > 0 && static_cast<std::int64_t>(times.size()) > std::max(longest, cap(q))) {
                times.erase(times.begin());
            }
        }
    }

    /// True if an entry has left.
    bool remove(const Check& q, std::uint64_t now, std::uint64_t time, std::int64_t entries) {
        if (q.algorithm == Algorithm::Bucket) {
            const std::int64_t before = drops;
            drops = std::min(drops + entries * q.windowMs, q.burst * q.windowMs);
            return before < q.burst * q.windowMs && entries > 0;
        }
        if (q.algorithm == Algorithm::Counter) {
            const std::uint64_t index = time / static_cast<std::uint64_t>(q.windowMs);
            counts[index] -= entries;
            return index + 1 >= now / static_cast<std::uint64_t>(q.windowMs) && entries > 0;
        }
        const auto begin = std::lower_bound(times.begin(), times.end(), time);
        const auto end = std::upper_bound(times.begin(), times.end(), time);
        const auto removed = std::min<std::ptrdiff_t>(entries, end - begin);
        times.erase(begin, begin + removed);
        return removed > 0;
    }

    void takeBack(const Check& q, std::uint64_t now, std::uint64_t time, std::uint64_t taken, std::int64_t entries) {
        advance(q, now);
        if (remove(q, now, time, entries) && blockedSince >= taken && !isNever(q) && hasRoom(q, now, q.cost)) {
            blockedUntil = std::min(blockedUntil, now);
        }
    }
};

std::int64_t entriesOf(const Check& check, std::string_view unique) {
    return check.algorithm == Algorithm::Sampled ? sampledEntries(check.cost, check.sample, unique) : check.cost;
}

/// Random requests for one to three logs of any algorithm, cost, cap, delay, block and count, with time steps and
/// take-backs.
TEST(Decide, DecidesAsTheModel) {
    constexpr std::int64_t kFarthest = 60;
    std::mt19937 random(2024);
    const auto upTo = [&](std::int64_t most) { return static_cast<std::int64_t>(random()) % (most + 1); };
    std::int64_t admissions = 0;
    std::int64_t holds = 0;
    std::int64_t denials = 0;
    for (int round = 0; round < 150; round++) {
        std::vector<Check> named;
        for (const char* key : {"a", "b", "c"}) {
            Check made = check(kAll[random() % std::size(kAll)], 0, 1 + upTo(30), key);
            made.sample = 1 + upTo(2);
            made.aheadMs = kFarthest;
            made.burst = 1 + upTo(10);
            named.push_back(made);
        }
        const bool mayHold = random() % 3 > 0;
        const bool mayCount = random() % 3 == 0;
        const bool mayBlock = random() % 4 == 0;
        Logs logs;
        std::map<std::string_view, Naive> naive;
        struct Admission {
            std::vector<Check> checks;
            std::uint64_t takenMs;
            std::uint64_t loggedMs;
            std::string unique;
        };
        std::vector<Admission> admitted;
        std::uint64_t now = 1000 + static_cast<std::uint64_t>(upTo(1000));
        for (int step = 0; step < 150; step++) {
            now += static_cast<std::uint64_t>(random() % 3 == 0 ? upTo(25) : upTo(1));
            const std::string unique = "name" + std::to_string(round) + "-" + std::to_string(step);
            std::vector<Check> checks;
            const std::size_t first = random() % named.size();
            for (std::size_t i = 0; i <= random() % named.size(); i++) {
                Check asked = named[(first + i) % named.size()];
                asked.limit = random() % 20 == 0 ? upTo(8) : 1 + static_cast<std::int64_t>(first + i) % 8;
                asked.cost = random() % 3 == 0 ? upTo(4) : 1;
                asked.delayMs = mayHold && random() % 3 > 0 ? upTo(kFarthest) : 0;
                asked.countsAll = mayCount && random() % 2 == 0;
                asked.cap = random() % 4 == 0 ? 0 : 8 + upTo(6);  // the cap may differ between locations and nodes
                asked.blockMs = mayBlock && random() % 2 == 0 ? 1 + upTo(30) : 0;
                checks.push_back(asked);
            }

            std::uint64_t reservedAt = now;
            bool denied = false;
            for (const Check& each : checks) {
                Naive& log = naive[each.key];
                log.advance(each, now);
                const bool isBlocked = log.blockedUntil > now;
                bool denies = isBlocked || log.isNever(each);
                if (!denies && !log.hasRoom(each, now, each.cost)) {
                    const std::uint64_t own = log.reservedAt(each, now);
                    denies = own - now > static_cast<std::uint64_t>(each.delayMs);
                    reservedAt = denies ? reservedAt : std::max(reservedAt, own);
                }
                if (denies && !isBlocked && each.blockMs > 0 && each.limit > 0) {
                    log.blockedSince = now;
                    log.blockedUntil = now + static_cast<std::uint64_t>(each.blockMs);
                }
                denied = denied || denies;
            }

            const Logs::Answer answer = logs.ask(now, checks, unique);
            ASSERT_TRUE(answer.logged);
            for (std::size_t i = 0; i < checks.size(); i++) {
                const Check& each = checks[i];
                const Verdict& verdict = answer.verdicts[i];
                Naive& log = naive[each.key];
                const std::int64_t entries =
                    each.algorithm == Algorithm::Sampled ? sampledEntries(each.cost, each.sample, unique) : each.cost;
                const auto where = [&] {
                    return "round " + std::to_string(round) + " step " + std::to_string(step) + " log " +
                           std::string(each.key) + " algorithm " + std::to_string(static_cast<int>(each.algorithm));
                };
                ASSERT_EQ(verdict.isFirst, !denied && entries > 0 && log.used(each, now) == 0) << where();
                if (!denied) {
                    log.add(each, reservedAt, entries);
                } else if (each.countsAll) {
                    log.addDenied(each, now, entries);
                }
                std::int64_t retry = 0;
                if (denied && log.isNever(each)) {
                    retry = Verdict::kNever;
                } else if (denied) {
                    retry = static_cast<std::int64_t>(log.firstRoom(each, now, each.cost) - now);
                    if (log.blockedUntil > now) {
                        retry = std::max(retry, static_cast<std::int64_t>(log.blockedUntil - now));
                    }
                }
                ASSERT_EQ(verdict.retryMs, retry) << where();
                ASSERT_EQ(verdict.delayMs, denied ? 0 : static_cast<std::int64_t>(reservedAt - now)) << where();
                const std::int64_t remaining = log.remaining(each, now);
                ASSERT_EQ(verdict.remaining, remaining) << where();
                if (log.used(each, now) == 0) {
                    ASSERT_EQ(verdict.resetMs, each.windowMs) << where();
                } else if (each.algorithm == Algorithm::Log || each.algorithm == Algorithm::Compact ||
                           each.algorithm == Algorithm::Sampled) {
                    const auto leaves = log.times.front() + static_cast<std::uint64_t>(each.windowMs);
                    ASSERT_EQ(verdict.resetMs, static_cast<std::int64_t>(leaves - now)) << where();
                } else if (each.limit > 0) {
                    const std::uint64_t more = log.firstRoom(each, now, remaining + 1);
                    ASSERT_EQ(verdict.resetMs, static_cast<std::int64_t>(more - now)) << where();
                }
            }
            (denied ? denials : reservedAt > now ? holds : admissions)++;
            if (!denied) {
                admitted.push_back({checks, now, answer.loggedMs, unique});
            }
            if (!admitted.empty() && random() % 8 == 0) {
                const Admission& last = admitted.back();
                for (const Check& each : last.checks) {
                    const std::int64_t entries = entriesOf(each, last.unique);
                    logs.takeBack(now, each, last.loggedMs, last.takenMs, last.unique);
                    naive[each.key].takeBack(each, now, last.loggedMs, last.takenMs, entries);
                }
                admitted.pop_back();
            }
        }
    }
    EXPECT_GT(admissions, 1'000);
    EXPECT_GT(holds, 1'000);
    EXPECT_GT(denials, 1'000);
}

TEST(LogStateTest, IsLeftByAProcessThatDiesWhileItChangesIt) {
    Check check;
    check.limit = 5;
    check.windowMs = 1000;
    std::array<std::uint8_t, 64> place{};
    LogState state(check, 1, place);
    EXPECT_FALSE(state.wasLeft());
    state.beginChange();
    EXPECT_TRUE(state.wasLeft());
    state.endChange();
    EXPECT_FALSE(state.wasLeft());
    state.beginChange();
    state = LogState(check, 1, place);
    EXPECT_FALSE(state.wasLeft()) << "begun anew";
}

}  // namespace
}  // namespace sliding_log
