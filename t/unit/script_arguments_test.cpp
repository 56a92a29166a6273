#include "redis/script_arguments.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checks.hpp"

namespace sliding_log {
namespace {

/// The arguments of a plain call behind the keys.
struct Written {
    void key(std::string_view) {}
    void argument(std::string_view text) { all.emplace_back(text); }
    std::vector<std::string> all;
};

std::vector<std::string> plainArguments(const Check& check) {
    Written written;
    ScriptArguments<Written> arguments(written);
    arguments.plainRequest(check, "name", check.cost != 1);
    arguments.plain(check);
    return written.all;
}

/// Each option that a plain call may have, in a check of this algorithm.
std::vector<Check> withPlainOptions(Algorithm algorithm) {
    Check escalates = check(algorithm, 10, 1000);
    escalates.escalates = true;
    Check record = check(algorithm, 10, 1000);
    record.hasOverride = true;
    return {with(check(algorithm, 10, 1000), &Check::delayMs, 5), with(check(algorithm, 10, 1000), &Check::aheadMs, 5),
            with(check(algorithm, 10, 1000), &Check::blockMs, 5), escalates, record};
}

TEST(ScriptArguments, OptionsOfNoUseToARequestWithRoomMakeAPlainCall) {
    for (const Algorithm algorithm : {Algorithm::Log, Algorithm::Compact, Algorithm::Counter, Algorithm::Bucket}) {
        EXPECT_TRUE(isPlain(check(algorithm, 10, 1000)));
        for (const Check& each : withPlainOptions(algorithm)) {
            EXPECT_TRUE(isPlain(each));
            EXPECT_EQ(plainArguments(each).back(), OptionsText(each).view());
        }
    }
    for (const Check& each : withPlainOptions(Algorithm::Inflight)) {
        EXPECT_FALSE(isPlain(each)) << "the script of the algorithm has no such plain calls";
    }
}

TEST(ScriptArguments, OtherOptionsMakeNone) {
    Check named = check(Algorithm::Log, 10, 1000);
    named.named = true;
    EXPECT_FALSE(isPlain(named));
    Check counting = check(Algorithm::Compact, 10, 1000);
    counting.countsAll = true;
    EXPECT_FALSE(isPlain(counting));
    Check ofName = check(Algorithm::Log, 10, 1000);
    ofName.hasOverride = true;
    ofName.ofName.what = Override::What::Deny;
    EXPECT_FALSE(isPlain(ofName));
    EXPECT_FALSE(isPlain(with(check(Algorithm::Log, 10, 1000), &Check::cost, 2)));
    EXPECT_FALSE(isPlain(with(check(Algorithm::Compact, 10, 1000), &Check::cost, 0)));
    EXPECT_FALSE(isPlain(check(Algorithm::Quota, 10, 1000)));
}

TEST(ScriptArguments, ACostStandsBesideOptions) {
    Check both = with(with(check(Algorithm::Compact, 10, 1000), &Check::cost, 3), &Check::blockMs, 60'000);
    both.ttlMs = 1100;
    EXPECT_EQ(plainArguments(both), (std::vector<std::string>{"3", "10", "1000", "1100", "block=60000"}));
    both.cost = 1;
    EXPECT_EQ(plainArguments(both), (std::vector<std::string>{"10", "1000", "1100", "block=60000"}));
}

TEST(ScriptArguments, ABucketAlwaysTellsItsBurst) {
    Check bucket = with(check(Algorithm::Bucket, 10, 1000), &Check::burst, 15);
    bucket.ttlMs = 1100;
    EXPECT_EQ(plainArguments(bucket), (std::vector<std::string>{"10", "1000", "1100", "burst=15"}));
    bucket.delayMs = 5;
    EXPECT_EQ(plainArguments(bucket), (std::vector<std::string>{"10", "1000", "1100", "delay=5 burst=15"}));
    EXPECT_TRUE(arePlainTogether(bucket, bucket));
    EXPECT_FALSE(arePlainTogether(bucket, with(bucket, &Check::burst, 16)));
}

TEST(ScriptArguments, PlainCallsWithTheSameSettingsAreOne) {
    const Check plain = check(Algorithm::Log, 10, 1000);
    EXPECT_TRUE(arePlainTogether(plain, plain));
    for (const Check& each : withPlainOptions(Algorithm::Log)) {
        EXPECT_TRUE(arePlainTogether(each, each));
        EXPECT_FALSE(arePlainTogether(plain, each));
        EXPECT_FALSE(arePlainTogether(each, plain));
    }
    EXPECT_TRUE(arePlainTogether(with(check(Algorithm::Compact, 10, 1000), &Check::cost, 3),
                                 check(Algorithm::Compact, 10, 1000)));
    EXPECT_FALSE(arePlainTogether(plain, with(plain, &Check::limit, 11)));
}

Check withKey(Check check, std::string_view key) {
    check.key = key;
    return check;
}

TEST(ScriptArguments, APlainCallOfTwoLimitsHasTheNumbersOfBoth) {
    const Check first = withKey(check(Algorithm::Log, 10, 1000), "one");
    const Check second = withKey(check(Algorithm::Log, 20, 2000), "two");
    EXPECT_TRUE(arePlainTwo(first, second));
    Written written;
    ScriptArguments<Written> arguments(written);
    arguments.plainRequestOfTwo(first, second, "name");
    arguments.plainTwo(first, second);
    EXPECT_EQ(written.all, (std::vector<std::string>{"name", "10", "1000", std::to_string(first.ttlMs), "20", "2000",
                                                     std::to_string(second.ttlMs), "two"}));

    EXPECT_FALSE(arePlainTwo(first, withKey(second, first.key))) << "a script reads both before it writes one";
    for (const Check& each : withPlainOptions(Algorithm::Log)) {
        EXPECT_FALSE(arePlainTwo(first, withKey(each, "two")));
        EXPECT_FALSE(arePlainTwo(withKey(each, "two"), first));
    }
    EXPECT_FALSE(arePlainTwo(with(check(Algorithm::Compact, 10, 1000), &Check::cost, 2),
                             withKey(check(Algorithm::Compact, 20, 1000), "two")));
}

}  // namespace
}  // namespace sliding_log
