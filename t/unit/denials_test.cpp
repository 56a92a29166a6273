#include "store/denials.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace sliding_log {
namespace {

class DenialsTest : public testing::Test {
  protected:
    alignas(64) std::array<std::byte, 16 * Denials::kSlotBytes> memory{};
    Denials denials{memory.data(), memory.size()};

    bool isKnown(std::string_view signature, std::uint64_t now) {
        std::array<Verdict, 1> verdict;
        return denials.find(signature, std::hash<std::string_view>()(signature), now, verdict);
    }
    void publish(std::string_view signature, std::uint64_t asked, std::int64_t retryMs) {
        const std::array<Verdict, 1> verdict = {Verdict{0, retryMs, retryMs}};
        denials.publish(signature, std::hash<std::string_view>()(signature), asked, verdict);
    }
};

TEST_F(DenialsTest, LastUntilTheSlotFreesAndNoLonger) {
    EXPECT_FALSE(isKnown("a", 1000));
    publish("a", 1000, 500);
    EXPECT_TRUE(isKnown("a", 1000));
    EXPECT_TRUE(isKnown("a", 1498));
    EXPECT_FALSE(isKnown("a", 1499));
    EXPECT_FALSE(isKnown("b", 1000));
}

TEST_F(DenialsTest, TellTheTimeThatIsLeft) {
    const std::array<Verdict, 2> told = {Verdict{7, 9000, 0}, Verdict{0, 400, 400}};
    denials.publish("two", 2, 1000, told);
    std::array<Verdict, 2> verdicts;
    ASSERT_TRUE(denials.find("two", 2, 1100, verdicts));
    EXPECT_TRUE(verdicts[0].hasRoom());
    EXPECT_EQ(verdicts[0].remaining, 7);
    EXPECT_EQ(verdicts[0].resetMs, 8900);
    EXPECT_EQ(verdicts[1].retryMs, 300);
    std::array<Verdict, 1> fewer;
    EXPECT_FALSE(denials.find("two", 2, 1100, fewer));
}

TEST_F(DenialsTest, AreNeverTheDenialOfAnother) {
    publish("a", 1000, 500);
    std::array<Verdict, 1> verdict;
    const std::size_t hash = std::hash<std::string_view>()("a");
    EXPECT_FALSE(denials.find("b", hash, 1000, verdict));  // the same hash
    EXPECT_FALSE(denials.find("aa", hash, 1000, verdict));
}

TEST_F(DenialsTest, StayInTheirMemory) {
    for (int i = 0; i < 10000; i++) {
        publish("key" + std::to_string(i), 1000, 500 + i);
    }
    EXPECT_TRUE(isKnown("key9999", 1000));
    publish(std::string(Denials::kSlotBytes, 'x'), 1000, 500);
    EXPECT_FALSE(isKnown(std::string(Denials::kSlotBytes, 'x'), 1000));
    const std::array<Verdict, Denials::kMostLogs + 1> many{};
    denials.publish("many", 1, 1000, many);
}

TEST_F(DenialsTest, AreForgotten) {
    publish("a", 1000, 500);
    publish("b", 1000, 500);
    denials.forget("a", std::hash<std::string_view>()("a"));
    denials.forget("c", std::hash<std::string_view>()("c"));
    EXPECT_FALSE(isKnown("a", 1000));
    EXPECT_TRUE(isKnown("b", 1000));
    publish("a", 1000, 500);
    EXPECT_TRUE(isKnown("a", 1000));
}

TEST_F(DenialsTest, OfALimitOfZeroAreTold) {
    const std::array<Verdict, 1> never = {Verdict{0, 1000, Verdict::kNever}};
    denials.publish("zero", 3, 1000, never);
    std::array<Verdict, 1> verdict;
    ASSERT_TRUE(denials.find("zero", 3, 1500, verdict));
    EXPECT_EQ(verdict[0].retryMs, Verdict::kNever);
}

/// Writers and readers of one set at once: a reader sees a whole denial or none.
TEST_F(DenialsTest, AreReadWhole) {
    std::atomic<bool> stop = false;
    std::vector<std::thread> writers;
    for (std::uint64_t id = 1; id <= 2; id++) {
        writers.emplace_back([&, id] {
            for (std::uint64_t round = 0; !stop; round++) {
                const auto value = static_cast<std::int64_t>(round * 2 + id);
                const std::array<Verdict, 1> verdict = {Verdict{value, value, 1'000'000 + value}};
                denials.publish("same", 5, 0, verdict);
            }
        });
    }
    int found = 0;
    for (int i = 0; i < 300'000; i++) {
        std::array<Verdict, 1> verdict;
        if (denials.find("same", 5, 0, verdict)) {
            found++;
            ASSERT_EQ(verdict[0].resetMs, verdict[0].remaining);
            ASSERT_EQ(verdict[0].retryMs, verdict[0].remaining + 1'000'000);
        }
    }
    stop = true;
    for (std::thread& writer : writers) {
        writer.join();
    }
    EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace sliding_log
