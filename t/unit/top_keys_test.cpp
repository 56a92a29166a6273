#include "metrics/top_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "torn.hpp"

namespace sliding_log {
namespace {

constexpr std::size_t kBytes = 128 * 1024;

/// A table in memory that is aligned as in the zone.
class TopKeysTest : public testing::Test {
  protected:
    static TopKeys table(std::size_t bytes, std::vector<char>& memory) {
        memory.assign(bytes + 64, 0);
        return TopKeys(aligned(memory), bytes, 7);
    }
    static char* aligned(std::vector<char>& memory) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
        return memory.data() + (64 - address % 64) % 64;
    }

    void count(const std::string& value, const std::string& limit = "api", unsigned used = 0) {
        keys_.count(limit + ":{" + value, std::hash<std::string>{}(limit + value), used, nowMs_);
    }

    static const TopKeys::Key* find(const std::vector<TopKeys::Key>& keys, const std::string& value) {
        const auto found = std::ranges::find(keys, value, &TopKeys::Key::value);
        return found == keys.end() ? nullptr : &*found;
    }

    std::vector<char> memory_;
    TopKeys keys_ = table(kBytes, memory_);
    std::uint64_t nowMs_ = 1'000'000;
};

TEST_F(TopKeysTest, FewKeysAreCountedExactly) {
    for (int key = 1; key <= 20; key++) {
        for (int i = 0; i < key; i++) {
            count("k" + std::to_string(key), "api", static_cast<unsigned>(i));
        }
    }
    const std::vector<TopKeys::Key> keys = keys_.list();
    ASSERT_EQ(keys.size(), 20U);
    for (std::size_t i = 0; i < keys.size(); i++) {
        EXPECT_EQ(keys[i].value, "k" + std::to_string(20 - i));
        EXPECT_EQ(keys[i].limit, "api");
        EXPECT_EQ(keys[i].requests, 20 - i);
        EXPECT_EQ(keys[i].used, 19 - i) << "the latest value";
        EXPECT_EQ(keys[i].seenMs, nowMs_);
    }
}

TEST_F(TopKeysTest, KeysOfDifferentLimitsAreCountedSeparately) {
    count("same", "one");
    count("same", "two");
    EXPECT_EQ(keys_.list().size(), 2U);
}

TEST_F(TopKeysTest, KeysWithTheSameHashAreCountedSeparately) {
    keys_.count("api:{one", 7, 0, nowMs_);
    keys_.count("api:{other", 7, 0, nowMs_);
    keys_.count("api:{other", 7, 0, nowMs_);
    const std::vector<TopKeys::Key> keys = keys_.list();
    ASSERT_EQ(keys.size(), 2U);
    EXPECT_EQ(find(keys, "one")->requests, 1U);
    EXPECT_EQ(find(keys, "other")->requests, 2U);
}

TEST_F(TopKeysTest, HeavyKeysAreFoundAmongManyKeys) {
    constexpr int kRounds = 40'000;
    for (int i = 0; i < kRounds; i++) {
        count("heavy" + std::to_string(i % 5));
        for (int j = 0; j < 4; j++) {
            count("light" + std::to_string(i * 4 + j));
        }
    }
    const std::vector<TopKeys::Key> keys = keys_.list();
    EXPECT_LE(keys.size(), kBytes / 200) << "the table is bounded";
    for (int heavy = 0; heavy < 5; heavy++) {
        EXPECT_EQ(keys[static_cast<std::size_t>(heavy)].value.substr(0, 5), "heavy");
        EXPECT_LE(keys[static_cast<std::size_t>(heavy)].requests, kRounds / 5U) << "counted at most once";
        EXPECT_GE(keys[static_cast<std::size_t>(heavy)].requests, kRounds / 5U * 9 / 10) << "nearly all are counted";
    }
}

TEST_F(TopKeysTest, NumbersHalveEveryMinute) {
    keys_.age(nowMs_);
    for (int i = 0; i < 100; i++) {
        count("a");
    }
    keys_.age(nowMs_ + TopKeys::kHalvedEveryMs - 1);
    EXPECT_EQ(keys_.list().front().requests, 100U);
    keys_.age(nowMs_ + TopKeys::kHalvedEveryMs);
    EXPECT_EQ(keys_.list().front().requests, 50U);
    keys_.age(nowMs_ + TopKeys::kHalvedEveryMs);
    EXPECT_EQ(keys_.list().front().requests, 50U) << "halved once in a minute";
    for (std::uint64_t minute = 2; minute < 10; minute++) {
        keys_.age(nowMs_ + minute * TopKeys::kHalvedEveryMs);
    }
    EXPECT_TRUE(keys_.list().empty());
    count("a");
    EXPECT_EQ(keys_.list().front().requests, 1U);
}

TEST_F(TopKeysTest, LongNamesAndTinyTablesAreSkipped) {
    count(std::string(TopKeys::kLongestName - 4, 'x'));
    EXPECT_TRUE(keys_.list().empty());
    count(std::string(128, 'x'), std::string(64, 'l'));
    EXPECT_EQ(keys_.list().front().value, std::string(128, 'x'));
    EXPECT_EQ(keys_.list().front().limit, std::string(64, 'l'));

    std::vector<char> memory;
    TopKeys tiny = table(64, memory);
    tiny.count("api:{x", 1, 0, nowMs_);
    tiny.age(nowMs_);
    EXPECT_TRUE(tiny.list().empty());
}

/// A worker is killed while it writes the name of a key.
TEST_F(TopKeysTest, ACellOfAKilledWorkerIsUsedAgain) {
    constexpr std::size_t kBeforeCells = 64 + 128;  // the header, and the hashes and counts of a set
    constexpr std::size_t kCell = 240;
    OtherProcess writer;
    std::vector<char> memory;
    TopKeys one = table(kBeforeCells + 8 * kCell, memory);
    const std::span<std::byte> cells(reinterpret_cast<std::byte*>(aligned(memory)) + kBeforeCells, 8 * kCell);
    std::mt19937 random(1);
    for (int key = 0; key < 8; key++) {
        const std::vector<std::byte> before(cells.begin(), cells.end());
        one.count("api:{k" + std::to_string(key), 2 * static_cast<std::size_t>(key), 0, nowMs_);
        for (std::size_t at = 0; at < cells.size(); at += kCell) {
            tear(cells.subspan(at, kCell), std::span(before).subspan(at, kCell), writer.id(), random);
        }
    }
    EXPECT_TRUE(one.list().empty());
    one.age(nowMs_);
    one.age(nowMs_ += TopKeys::kHalvedEveryMs);
    EXPECT_TRUE(one.list().empty());
    writer.end();
    one.age(nowMs_ += TopKeys::kHalvedEveryMs);
    for (int key = 0; key < 8; key++) {
        one.count("api:{new" + std::to_string(key), 2 * static_cast<std::size_t>(key), 0, nowMs_);
    }
    EXPECT_EQ(one.list().size(), 8U);
}

TEST_F(TopKeysTest, ConcurrentWorkersCountAHeavyKey) {
    count("hot");
    constexpr int kThreads = 4;
    constexpr int kEach = 20'000;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++) {
        threads.emplace_back([this, thread] {
            TopKeys mine(aligned(memory_), kBytes, 7, gettid());  // as another process sees it
            for (int i = 0; i < kEach; i++) {
                mine.count("api:{hot", std::hash<std::string>{}("apihot"), 0, nowMs_);
                const std::string rare = std::to_string(thread) + "." + std::to_string(i);
                mine.count("api:{" + rare, std::hash<std::string>{}(rare), 0, nowMs_);
            }
        });
    }
    for (int i = 0; i < 20; i++) {
        for (const TopKeys::Key& key : keys_.list()) {  // while the threads count
            EXPECT_TRUE(key.value == "hot" || key.value.find('.') == 1) << key.value;
        }
        keys_.age(nowMs_);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    const std::vector<TopKeys::Key> keys = keys_.list();
    const TopKeys::Key* hot = find(keys, "hot");
    ASSERT_NE(hot, nullptr);
    EXPECT_LE(hot->requests, 1U + kThreads * kEach);
    EXPECT_GE(hot->requests, kThreads * kEach * 9U / 10);
    EXPECT_EQ(hot->value, keys.front().value);
}

}  // namespace
}  // namespace sliding_log
