#include "local/quota_form.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "checks.hpp"
#include "local/decide.hpp"

namespace sliding_log {
namespace {

constexpr std::int64_t kMarch = 1'772'323'200'000;  // 2026-03-01T00:00:00Z

/// The clock of the store began at this time of UTC.
constexpr std::int64_t kBootMs = kMarch - 10 * kDayMs;

Check quota(std::int64_t limit, std::int64_t windowMs = kLongestMonthMs) {
    Check check;
    check.key = "key";
    check.algorithm = Algorithm::Quota;
    check.limit = limit;
    check.windowMs = windowMs;
    check.utcAheadMs = kBootMs;
    return check;
}

/// One log; times are of UTC.
class QuotaLog {
  public:
    Verdict ask(std::int64_t utcMs, const Check& check) {
        LogState* states[] = {&state_};
        Verdict verdict;
        EXPECT_TRUE(decide({&check, 1}, states, {&verdict, 1}, at(utcMs, check), "name", loggedMs_,
                           [](LogState&, std::size_t) { return false; }));
        return verdict;
    }

    void takeBack(std::int64_t utcMs, const Check& check, std::int64_t takenMs, std::int64_t heldMs = 0) {
        const std::uint64_t taken = at(takenMs, check);
        sliding_log::takeBack(state_, check, at(utcMs, check), "name", taken + static_cast<std::uint64_t>(heldMs),
                              taken);
    }

    std::int64_t endsAt(const Check& check) const {
        return static_cast<std::int64_t>(state_.endsAt()) + check.utcAheadMs;
    }

  private:
    static std::uint64_t at(std::int64_t utcMs, const Check& check) {
        return static_cast<std::uint64_t>(utcMs - check.utcAheadMs);
    }

    LogState state_{quota(1), 0, {}};
    std::uint64_t loggedMs_ = 0;
};

TEST(QuotaForm, CountsInAPeriodAndTellsItsEnd) {
    QuotaLog log;
    const Check two = quota(2);
    EXPECT_EQ(log.ask(kMarch - 5000, with(two, &Check::cost, 0)).resetMs, 5000) << "also if nothing is used";
    EXPECT_EQ(log.ask(kMarch - 4000, two).remaining, 1);
    EXPECT_EQ(log.ask(kMarch - 3000, two).remaining, 0);
    const Verdict denied = log.ask(kMarch - 1, two);
    EXPECT_EQ(denied.retryMs, 1);
    EXPECT_EQ(denied.resetMs, 1);
    EXPECT_EQ(log.endsAt(two), kMarch);
    const Verdict next = log.ask(kMarch, two);
    EXPECT_EQ(next.retryMs, 0);
    EXPECT_EQ(next.remaining, 1);
    EXPECT_EQ(next.resetMs, 31 * kDayMs);
}

TEST(QuotaForm, ACostIsTakenWholeOrNotAtAll) {
    QuotaLog log;
    const Check ten = quota(10);
    EXPECT_EQ(log.ask(kMarch, with(ten, &Check::cost, 7)).remaining, 3);
    EXPECT_EQ(log.ask(kMarch, with(ten, &Check::cost, 4)).retryMs, 31 * kDayMs);
    EXPECT_EQ(log.ask(kMarch, with(ten, &Check::cost, 11)).retryMs, Verdict::kNever);
    EXPECT_EQ(log.ask(kMarch, with(ten, &Check::cost, 3)).remaining, 0);
}

TEST(QuotaForm, TakesBackOnlyWhatThePeriodHas) {
    QuotaLog log;
    const Check two = quota(2);
    log.ask(kMarch - 1000, two);
    log.ask(kMarch + 1000, two);
    log.takeBack(kMarch + 2000, two, kMarch - 1000);
    EXPECT_EQ(log.ask(kMarch + 2000, with(two, &Check::cost, 0)).remaining, 1) << "it was of February";
    log.takeBack(kMarch + 2000, two, kMarch + 999);
    EXPECT_EQ(log.ask(kMarch + 2000, with(two, &Check::cost, 0)).remaining, 1) << "the count began later";
    log.takeBack(kMarch + 2000, two, kMarch + 1000);
    EXPECT_EQ(log.ask(kMarch + 2000, with(two, &Check::cost, 0)).remaining, 2);
    log.takeBack(kMarch + 2000, two, kMarch + 1000);
    EXPECT_EQ(log.ask(kMarch + 2000, with(two, &Check::cost, 0)).remaining, 2) << "nothing was left";
}

TEST(QuotaForm, ARequestThatIsHeldCountsWhereItWasDecided) {
    QuotaLog log;
    const Check two = quota(2);
    log.ask(kMarch - 1000, two);
    log.takeBack(kMarch - 500, two, kMarch - 1000, 5000);
    EXPECT_EQ(log.ask(kMarch - 500, with(two, &Check::cost, 0)).remaining, 2);
    log.ask(kMarch - 400, two);
    log.ask(kMarch + 100, two);
    log.takeBack(kMarch + 200, two, kMarch - 400, 5000);
    EXPECT_EQ(log.ask(kMarch + 200, with(two, &Check::cost, 0)).remaining, 1) << "what it took ended with February";
}

TEST(QuotaForm, TheLaterPeriodCountsIfTheClockWasSetBack) {
    QuotaLog log;
    const Check two = quota(2, kHourMs);
    log.ask(kMarch, two);
    const Check back = with(two, &Check::utcAheadMs, kBootMs - 2000);
    const Verdict early = log.ask(kMarch - 1000, back);  // the clock of the store goes on
    EXPECT_EQ(early.remaining, 0);
    EXPECT_EQ(early.resetMs, kHourMs + 1000);
    EXPECT_EQ(log.ask(kMarch - 500, back).retryMs, kHourMs + 500);
    EXPECT_EQ(log.ask(kMarch + 500, back).retryMs, kHourMs - 500);
    EXPECT_EQ(log.ask(kMarch + kHourMs, back).remaining, 1);
}

TEST(QuotaForm, ACountFarAheadBecomesOneOfNow) {
    QuotaLog log;
    const Check two = quota(2, kHourMs);
    log.ask(kMarch, two);
    const Check back = with(two, &Check::utcAheadMs, kBootMs - 5 * kHourMs);
    EXPECT_EQ(log.ask(kMarch - 5 * kHourMs + 1000, back).remaining, 0);
    EXPECT_EQ(log.ask(kMarch - 5 * kHourMs + 2000, back).retryMs, kHourMs - 2000);
    EXPECT_EQ(log.ask(kMarch - 4 * kHourMs, back).remaining, 1);
}

TEST(QuotaForm, ACountOfAnotherPeriodStaysIfItBeganInThisOne) {
    QuotaLog log;
    log.ask(kMarch + kHourMs, quota(5, kHourMs));
    EXPECT_EQ(log.ask(kMarch + kHourMs, quota(5, kDayMs)).remaining, 3);
    EXPECT_EQ(log.ask(kMarch + 5 * kHourMs, quota(5, kHourMs)).remaining, 4);
}

/// Random requests and take-backs, against a list of all admitted requests.
TEST(QuotaForm, IsTheNaiveDecision) {
    std::mt19937_64 random(2026);
    const auto upTo = [&](std::int64_t most) {
        return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
    };
    for (const PeriodKind& kind : kPeriodKinds) {
        QuotaLog log;
        struct Admission {
            std::int64_t at;
            std::int64_t cost;
        };
        std::vector<Admission> admitted;
        std::int64_t now = kMarch;
        std::int64_t began = 0;  // the first one since nothing was counted
        int denials = 0;
        for (int step = 0; step < 3000; step++) {
            now += upTo(kind.longestMs / 20);
            const Period period = periodAt(now, kind.longestMs);
            std::erase_if(admitted, [&](const Admission& each) { return each.at < period.begin; });
            std::int64_t used = 0;
            for (const Admission& each : admitted) {
                used += each.cost;
            }
            Check asked = quota(1 + upTo(30), kind.longestMs);
            asked.cost = upTo(3);
            const bool fits = used + asked.cost <= asked.limit;
            const Verdict verdict = log.ask(now, asked);
            used += fits ? asked.cost : 0;
            ASSERT_EQ(verdict.retryMs, fits ? 0 : asked.cost > asked.limit ? Verdict::kNever : period.end - now);
            ASSERT_EQ(verdict.resetMs, period.end - now);
            ASSERT_EQ(verdict.remaining, std::max<std::int64_t>(asked.limit - used, 0));
            denials += fits ? 0 : 1;
            if (fits && asked.cost > 0) {
                began = admitted.empty() ? now : began;
                admitted.push_back({now, asked.cost});
            }
            if (!admitted.empty() && random() % 4 == 0) {
                const auto gone = admitted.begin() + upTo(static_cast<std::int64_t>(admitted.size()) - 1);
                log.takeBack(now, with(asked, &Check::cost, gone->cost), gone->at);
                if (gone->at >= began) {
                    admitted.erase(gone);
                }
            }
        }
        EXPECT_GT(denials, 200) << kind.name;
    }
}

}  // namespace
}  // namespace sliding_log
