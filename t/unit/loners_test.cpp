#include "store/loners.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sliding_log {
namespace {

class LonersTest : public ::testing::Test {
  protected:
    static std::vector<Question> asks(const std::vector<std::string_view>& keys, std::uint16_t slot = 0) {
        std::vector<Question> questions(keys.size());
        for (std::size_t i = 0; i < keys.size(); i++) {
            questions[i].key = keys[i];
            questions[i].slot = slot;
        }
        return questions;
    }

    bool areApart(const std::vector<Question>& questions) const { return loners.areApart(questions, now); }
    bool areAlone(const std::vector<Question>& questions) const { return loners.areAlone(questions, now); }

    Loners loners;
    std::uint64_t now = 5000;
};

TEST_F(LonersTest, ANameIsOfAllItsLogsAndOfNoOthers) {
    EXPECT_TRUE(loners.isEmpty(now));
    loners.addName("rl:api:{one}", now);
    EXPECT_FALSE(loners.isEmpty(now));
    EXPECT_TRUE(areAlone(asks({"rl:api:{two}"})));
    EXPECT_TRUE(areAlone(asks({"rl:login:{two}", "rl:api:{two}"})));
    EXPECT_TRUE(areApart(asks({"rl:login:{two}", "rl:api:{two}"})));
    EXPECT_FALSE(areAlone(asks({"rl:login:{one}"})));
    EXPECT_FALSE(areAlone(asks({"other:api:{one}"})));
    EXPECT_FALSE(areApart(asks({"rl:apis:{one}", "rl:login:{one}"})));
}

TEST_F(LonersTest, ALogIsApartAndHasNeighboursInItsCall) {
    loners.addLog("rl:api:{one}", now);
    EXPECT_TRUE(areApart(asks({"rl:login:{one}", "rl:api:{one}"})));
    EXPECT_FALSE(areAlone(asks({"rl:api:{one}"})));
    EXPECT_FALSE(areApart(asks({"rl:login:{one}", "rl:api:{two}"})));
}

TEST_F(LonersTest, ASlotIsOfAllItsLogs) {
    loners.addSlot(7, now);
    EXPECT_TRUE(areApart(asks({"rl:api:{one}", "rl:login:{one}"}, 7)));
    EXPECT_TRUE(areAlone(asks({"rl:api:{one}"}, 7)));
    EXPECT_FALSE(areAlone(asks({"rl:api:{one}"}, 8)));
}

TEST_F(LonersTest, LastsASecondAfterTheLatestRefusal) {
    loners.addSlot(7, now);
    now += 600;
    loners.addSlot(7, now);
    now += 999;
    EXPECT_TRUE(areAlone(asks({"rl:api:{one}"}, 7)));
    now += 1;
    EXPECT_FALSE(areAlone(asks({"rl:api:{one}"}, 7)));
    EXPECT_TRUE(loners.isEmpty(now));
}

TEST_F(LonersTest, OneThatIsRefusedAgainTakesNoOthersPlace) {
    loners.addName("rl:first:{x}", now);
    for (int i = 0; i < 1000; i++) {
        loners.addName("rl:api:{x}", now);
    }
    EXPECT_TRUE(areAlone(asks({"rl:first:{x}"})));
}

TEST_F(LonersTest, TheOldestAreForgotten) {
    for (int i = 0; i < 1000; i++) {
        const std::string key = "rl:api:{" + std::to_string(i) + "}";
        loners.addLog(key, now);
        EXPECT_TRUE(areApart(asks({key, "rl:login:{x}"})));
    }
    EXPECT_FALSE(areApart(asks({"rl:api:{0}", "rl:login:{x}"})));
}

}  // namespace
}  // namespace sliding_log
