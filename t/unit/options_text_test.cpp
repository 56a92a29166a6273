#include "limit/options_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "embed.hpp"

EMBED(frame, EMBEDDED_FILE("decide.lua"));

namespace sliding_log {
namespace {

TEST(Options, AreThoseThatTheFrameExplains) {
    const std::string frame(EMBEDDED(frame));
    const std::string list = frame.substr(frame.find("-- options are usually"));
    std::istringstream lines(list.substr(0, list.find("\n\n")));
    const std::string before = "--   ";
    std::vector<std::string> words;  // without a value of digits
    for (std::string line; std::getline(lines, line);) {
        const std::size_t end = line.find("  ", before.size());
        if (line.starts_with(before) && line[before.size()] != ' ' && end != std::string::npos) {
            const std::string word = line.substr(before.size(), end - before.size());
            if (word.find('(') == std::string::npos) {  // else a function is explained
                words.push_back(word.substr(0, word.find_first_of("0123456789")));
            }
        }
    }
    EXPECT_TRUE(std::ranges::equal(kOptions, words, {}, &OptionRow::word)) << testing::PrintToString(words);
}

TEST(OptionsText, IsEmptyForDefaults) {
    for (Algorithm algorithm : {Algorithm::Log, Algorithm::Compact, Algorithm::Counter}) {
        Check check;
        check.algorithm = algorithm;
        EXPECT_EQ(OptionsText(check).view(), "");
    }
}

TEST(OptionsText, HasOtherValuesInAFixedOrder) {
    Check check;
    check.named = true;
    check.cost = 5;
    check.countsAll = true;
    check.delayMs = 2000;
    check.aheadMs = 5000;
    check.blockMs = 60'000;
    check.burst = 100;  // for a bucket or samples
    check.sample = 10;
    EXPECT_EQ(OptionsText(check).view(), "ids cost=5 count=all delay=2000 ahead=5000 block=60000");
    check.algorithm = Algorithm::Bucket;
    EXPECT_EQ(OptionsText(check).view(), "ids cost=5 count=all delay=2000 ahead=5000 block=60000 burst=100");
    check = Check();
    check.algorithm = Algorithm::Sampled;
    check.sample = 1;
    EXPECT_EQ(OptionsText(check).view(), "sample=1");
    check.cost = 0;
    EXPECT_EQ(OptionsText(check).view(), "cost=0 sample=1");
}

TEST(OptionsText, HasTheTimesOfBlocks) {
    Check check;
    check.escalates = true;
    EXPECT_EQ(OptionsText(check).view(), "escalates") << "those of another limit";
    for (std::int64_t& ms : check.blockTimes.ms) {
        ms = std::int64_t{366} * 86'400'000;
        check.blockTimes.count++;
    }
    check.blockMs = check.blockTimes.at(1);
    std::string expected = "block=31622400000";
    for (std::size_t i = 1; i < BlockTimes::kMost; i++) {
        expected += ",31622400000";
    }
    EXPECT_EQ(OptionsText(check).view(), expected);
}

TEST(OptionsText, HasTheNumberOfPermits) {
    Check check;
    EXPECT_EQ(OptionsText(check, 50).view(), "permits=50");
    EXPECT_EQ(OptionsText(check, 50, false, 20).view(), "permits=50 held=20");
    check.cost = 3;
    check.aheadMs = 600;
    check.prefetch = 10;
    check.permitLifeMs = 600;
    EXPECT_EQ(OptionsText(check, 50).view(), "cost=3 ahead=600 permits=50");
    EXPECT_EQ(OptionsText(check).view(), "cost=3 ahead=600");
}

TEST(OptionsText, HasTheCostThatIsSettled) {
    Check check;
    check.settled = 0;
    EXPECT_EQ(OptionsText(check).view(), "settle=0");
    check.algorithm = Algorithm::Bucket;
    check.cost = 3;
    check.burst = 100;
    check.settled = 1;
    EXPECT_EQ(OptionsText(check).view(), "cost=3 settle=1 burst=100");
    check.settled = 4;
    EXPECT_EQ(OptionsText(check).view(), "cost=3 settle=4 ended=000000000000 burst=100") << "room for any time";
}

TEST(OptionsText, HasRoomForTheLargestNumbers) {
    Check check;
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::min();  // a sign and 19 digits
    check.algorithm = Algorithm::Bucket;
    check.named = check.countsAll = true;
    check.cost = check.delayMs = check.aheadMs = check.blockMs = check.burst = check.settled = kLargest;
    EXPECT_TRUE(OptionsText(check, kLargest).view().ends_with(" burst=-9223372036854775808"));
}

}  // namespace
}  // namespace sliding_log
