#include "shared/set_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>

#include "torn.hpp"

namespace sliding_log {
namespace {

using Set = std::array<std::uint64_t, 4>;

TEST(Sets, AreAsManyAsThereIsRoomFor) {
    alignas(64) Set memory[3]{};
    const Sets<Set> sets(memory, sizeof memory - 1);
    EXPECT_EQ(sets.all().size(), 2U);
    EXPECT_EQ(&sets.of(7), &memory[1]);
    EXPECT_TRUE(Sets<Set>(nullptr, sizeof memory).areNone());
    EXPECT_TRUE(Sets<Set>(memory, sizeof(Set) - 1).areNone());
    EXPECT_TRUE(Sets<Set>().areNone());
}

TEST(VictimOf, IsTheFirstWayOfTheLeastRank) {
    Set set = {5, 3, 9, 3};
    const auto least = victimOf(set, [](std::uint64_t way) { return way; });
    EXPECT_EQ(least->way, set.begin() + 1);
    EXPECT_EQ(least->rank, 3U);
    const auto isLarge = [](std::uint64_t way) { return way > 4 ? std::optional(way) : std::nullopt; };
    EXPECT_EQ(victimOf(set, isLarge)->way, set.begin());
    const auto isNone = [](std::uint64_t) { return std::optional<std::uint64_t>(); };
    EXPECT_FALSE(victimOf(set, isNone));
}

TEST(Writing, WaitsForALivingProcessOnly) {
    Sequence sequence{};
    OtherProcess other;
    ASSERT_TRUE(sequence.beginWriting(static_cast<Sequence::Writer>(other.id())));
    EXPECT_FALSE(Writing(sequence, static_cast<Sequence::Writer>(getpid())));
    EXPECT_TRUE(sequence.isWritten()) << "it is still the other one's";
    other.end();
    {
        const Writing writing(sequence, static_cast<Sequence::Writer>(getpid()));
        EXPECT_TRUE(writing);
        EXPECT_TRUE(sequence.isWritten());
    }
    EXPECT_FALSE(sequence.isWritten());
}

}  // namespace
}  // namespace sliding_log
