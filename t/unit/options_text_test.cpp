#include "limit/options_text.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace sliding_log {
namespace {

TEST(OptionsText, SaysNothingOfTheUsualQuestion) {
    for (Algorithm algorithm : {Algorithm::Log, Algorithm::Compact, Algorithm::Counter}) {
        Question question;
        question.algorithm = algorithm;
        EXPECT_EQ(OptionsText(question).view(), "");
    }
}

TEST(OptionsText, SaysWhatIsNotTheDefaultInItsOrder) {
    Question question;
    question.named = true;
    question.cost = 5;
    question.countsAll = true;
    question.delayMs = 2000;
    question.aheadMs = 5000;
    question.blockMs = 60'000;
    question.burst = 100;  // of a bucket, and of samples
    question.sample = 10;
    EXPECT_EQ(OptionsText(question).view(), "ids cost=5 count=all delay=2000 ahead=5000 block=60000");
    question.algorithm = Algorithm::Bucket;
    EXPECT_EQ(OptionsText(question).view(), "ids cost=5 count=all delay=2000 ahead=5000 block=60000 burst=100");
    question = Question();
    question.algorithm = Algorithm::Sampled;
    question.sample = 1;
    EXPECT_EQ(OptionsText(question).view(), "sample=1");
    question.cost = 0;
    EXPECT_EQ(OptionsText(question).view(), "cost=0 sample=1");
}

TEST(OptionsText, HasRoomForTheLargestNumbers) {
    Question question;
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::min();  // a sign and 19 digits
    question.algorithm = Algorithm::Bucket;
    question.named = question.countsAll = true;
    question.cost = question.delayMs = question.aheadMs = question.blockMs = question.burst = kLargest;
    EXPECT_TRUE(OptionsText(question).view().ends_with(" burst=-9223372036854775808"));
}

}  // namespace
}  // namespace sliding_log
