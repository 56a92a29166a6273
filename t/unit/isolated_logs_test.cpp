#include "node/isolated_logs.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sliding_log {
namespace {

class IsolatedLogsTest : public ::testing::Test {
  protected:
    static std::vector<Check> asks(const std::vector<std::string_view>& keys, std::uint16_t hashSlot = 0) {
        std::vector<Check> checks(keys.size());
        for (std::size_t i = 0; i < keys.size(); i++) {
            checks[i].key = keys[i];
            checks[i].hashSlot = hashSlot;
        }
        return checks;
    }

    bool areApart(const std::vector<Check>& checks) const { return isolatedLogs.areApart(checks, now); }
    bool areAlone(const std::vector<Check>& checks) const { return isolatedLogs.areAlone(checks, now); }

    IsolatedLogs isolatedLogs;
    std::uint64_t now = 5000;
};

TEST_F(IsolatedLogsTest, ANameAppliesToAllItsLogsOnly) {
    EXPECT_TRUE(isolatedLogs.isEmpty(now));
    isolatedLogs.addName("rl:api:{one}", now);
    EXPECT_FALSE(isolatedLogs.isEmpty(now));
    EXPECT_TRUE(areAlone(asks({"rl:api:{two}"})));
    EXPECT_TRUE(areAlone(asks({"rl:login:{two}", "rl:api:{two}"})));
    EXPECT_TRUE(areApart(asks({"rl:login:{two}", "rl:api:{two}"})));
    EXPECT_FALSE(areAlone(asks({"rl:login:{one}"})));
    EXPECT_FALSE(areAlone(asks({"other:api:{one}"})));
    EXPECT_FALSE(areApart(asks({"rl:apis:{one}", "rl:login:{one}"})));
}

TEST_F(IsolatedLogsTest, ALogIsAskedApartButNotAlone) {
    isolatedLogs.addLog("rl:api:{one}", now);
    EXPECT_TRUE(areApart(asks({"rl:login:{one}", "rl:api:{one}"})));
    EXPECT_FALSE(areAlone(asks({"rl:api:{one}"})));
    EXPECT_FALSE(areApart(asks({"rl:login:{one}", "rl:api:{two}"})));
}

TEST_F(IsolatedLogsTest, AHashSlotAppliesToAllItsLogs) {
    isolatedLogs.addSlot(7, now);
    EXPECT_TRUE(areApart(asks({"rl:api:{one}", "rl:login:{one}"}, 7)));
    EXPECT_TRUE(areAlone(asks({"rl:api:{one}"}, 7)));
    EXPECT_FALSE(areAlone(asks({"rl:api:{one}"}, 8)));
}

TEST_F(IsolatedLogsTest, LastsOneSecondAfterTheLatestRefusal) {
    isolatedLogs.addSlot(7, now);
    now += 600;
    isolatedLogs.addSlot(7, now);
    now += 999;
    EXPECT_TRUE(areAlone(asks({"rl:api:{one}"}, 7)));
    now += 1;
    EXPECT_FALSE(areAlone(asks({"rl:api:{one}"}, 7)));
    EXPECT_TRUE(isolatedLogs.isEmpty(now));
}

TEST_F(IsolatedLogsTest, ARepeatedRefusalReplacesNoOther) {
    isolatedLogs.addName("rl:first:{x}", now);
    for (int i = 0; i < 1000; i++) {
        isolatedLogs.addName("rl:api:{x}", now);
    }
    EXPECT_TRUE(areAlone(asks({"rl:first:{x}"})));
}

TEST_F(IsolatedLogsTest, TheOldestRefusalsAreReplaced) {
    for (int i = 0; i < 1000; i++) {
        const std::string key = "rl:api:{" + std::to_string(i) + "}";
        isolatedLogs.addLog(key, now);
        EXPECT_TRUE(areApart(asks({key, "rl:login:{x}"})));
    }
    EXPECT_FALSE(areApart(asks({"rl:api:{0}", "rl:login:{x}"})));
}

}  // namespace
}  // namespace sliding_log
