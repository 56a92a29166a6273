#include "store/known_denials.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "torn.hpp"

namespace sliding_log {
namespace {

Check checkOf(std::string_view key, std::int64_t limit = 1) {
    Check check;
    check.key = key;
    check.limit = limit;
    check.windowMs = 60'000;
    return check;
}

class KnownDenialsTest : public testing::Test {
  protected:
    alignas(64) std::array<std::byte, 16 * KnownDenials::kSlotBytes> memory{};
    KnownDenials denials{memory.data(), memory.size()};

    static Signature signatureOf(const std::vector<Check>& checks, std::uint64_t store = 7) {
        Signature signature;
        signature.assign(store, checks);
        return signature;
    }
    static Signature signatureOf(std::string_view key) { return signatureOf({checkOf(key)}); }

    DenialState denialStateOf(std::string_view key, std::uint64_t now) { return denialStateOf(signatureOf(key), now); }
    DenialState denialStateOf(const Signature& signature, std::uint64_t now) {
        std::vector<Verdict> verdicts(signature.logs().size());
        return denials.find(signature, now, verdicts);
    }
    void publish(std::string_view key, std::uint64_t sent, std::int64_t retryMs) {
        publish({checkOf(key)}, sent, {Verdict{0, retryMs, retryMs}});
    }
    void publish(const std::vector<Check>& checks, std::uint64_t sent, const std::vector<Verdict>& verdicts) {
        const Signature signature = signatureOf(checks);
        denials.publish(signature, denials.generation(signature), sent, checks, verdicts);
    }
};

TEST_F(KnownDenialsTest, LastUntilThereIsRoom) {
    EXPECT_EQ(denialStateOf("a", 1000), DenialState::None);
    publish("a", 1000, 500);
    EXPECT_EQ(denialStateOf("a", 1000), DenialState::Holds);
    EXPECT_EQ(denialStateOf("a", 1498), DenialState::Holds) << "a denial that ends soon is not due";
    EXPECT_EQ(denialStateOf("a", 1499), DenialState::None);
    EXPECT_EQ(denialStateOf("b", 1000), DenialState::None);
}

TEST_F(KnownDenialsTest, KnowWhatARecordSaid) {
    const std::vector<Check> checks = {checkOf("a"), checkOf("b")};
    const Verdict denied{0, 500, 500, 0, {Override::What::Deny, 0, 1'800'000'000'000}};
    const Verdict limited{3, 500, 0, 0, {Override::What::Limit, kLargestCount, 0}};
    publish(checks, 1000, {denied, limited});
    std::vector<Verdict> found(2);
    EXPECT_EQ(denials.find(signatureOf(checks), 1000, found), DenialState::Holds);
    EXPECT_EQ(found[0].override.what, Override::What::Deny);
    EXPECT_EQ(found[1].override.what, Override::What::Limit);
    EXPECT_EQ(found[1].override.limit, kLargestCount);
    publish(checks, 1000, {Verdict{0, 500, 500}, Verdict{3, 500, 0}});
    EXPECT_EQ(denials.find(signatureOf(checks), 1000, found), DenialState::Holds);
    EXPECT_EQ(found[0].override.what, Override::What::None);
}

TEST_F(KnownDenialsTest, LastAtMostOneSecond) {
    for (const std::int64_t retry : {std::int64_t{1001}, std::int64_t{3'600'000}, Verdict::kNever}) {
        publish("a", 5000, retry);
        EXPECT_EQ(denialStateOf("a", 5949), DenialState::Holds);
        EXPECT_EQ(denialStateOf("a", 5950), DenialState::Due);
        EXPECT_EQ(denialStateOf("a", 5999), DenialState::Due);
        EXPECT_EQ(denialStateOf("a", 6000), DenialState::None);
    }
}

TEST_F(KnownDenialsTest, AreClaimedByOneWorker) {
    publish("a", 1000, 3'600'000);
    EXPECT_FALSE(denials.claim(signatureOf("a"), 1949)) << "a denial is not claimed before it is due";
    EXPECT_TRUE(denials.claim(signatureOf("a"), 1950));
    EXPECT_FALSE(denials.claim(signatureOf("a"), 1950));
    EXPECT_EQ(denialStateOf("a", 1999), DenialState::Holds) << "a claimed denial holds for the other workers";
    EXPECT_EQ(denialStateOf("a", 2000), DenialState::None) << "a claimed denial ends without a reply";
    publish("a", 1951, 3'600'000);
    EXPECT_EQ(denialStateOf("a", 2900), DenialState::Holds);
    EXPECT_EQ(denialStateOf("a", 2901), DenialState::Due);
    EXPECT_TRUE(denials.claim(signatureOf("none"), 1950)) << "a request without a known denial asks the store";
}

TEST_F(KnownDenialsTest, EndWhenADelayMayAdmit) {
    Check held = checkOf("held");
    held.delayMs = 400;
    publish({held}, 1000, {Verdict{0, 700, 700}});
    EXPECT_EQ(denialStateOf(signatureOf({held}), 1298), DenialState::Holds);
    EXPECT_EQ(denialStateOf(signatureOf({held}), 1299), DenialState::None);
    publish({held}, 2000, {Verdict{0, 400, 400}});
    EXPECT_EQ(denialStateOf(signatureOf({held}), 2000), DenialState::None)
        << "a denial whose delay= may admit is not known";

    const std::vector<Check> both = {held, checkOf("other")};
    publish(both, 3000, {Verdict{0, 700, 700}, Verdict{0, 600, 600}});
    EXPECT_EQ(denialStateOf(signatureOf(both), 3598), DenialState::Holds)
        << "a denial lasts while one of its limits denies";
    EXPECT_EQ(denialStateOf(signatureOf(both), 3599), DenialState::None);
}

TEST_F(KnownDenialsTest, ReturnTheRemainingTime) {
    const std::vector<Check> two = {checkOf("a"), checkOf("b")};
    publish(two, 1000, {Verdict{7, 9000, 0}, Verdict{0, 400, 400}});
    std::array<Verdict, 2> verdicts;
    ASSERT_EQ(denials.find(signatureOf(two), 1100, verdicts), DenialState::Holds);
    EXPECT_TRUE(verdicts[0].hasRoom());
    EXPECT_EQ(verdicts[0].remaining, 7);
    EXPECT_EQ(verdicts[0].resetMs, 8900);
    EXPECT_EQ(verdicts[1].retryMs, 300);
}

TEST_F(KnownDenialsTest, AreNotFoundByAnotherSignatureWithTheSameHash) {
    publish("a", 1000, 500);
    Signature other = signatureOf("b");
    other.hash = signatureOf("a").hash;
    EXPECT_EQ(denialStateOf(other, 1000), DenialState::None);
    other = signatureOf("aa");
    other.hash = signatureOf("a").hash;
    EXPECT_EQ(denialStateOf(other, 1000), DenialState::None);
}

TEST_F(KnownDenialsTest, UseTheirMemoryOnly) {
    for (int i = 0; i < 10000; i++) {
        publish("key" + std::to_string(i), 1000, 500 + i);
    }
    EXPECT_EQ(denialStateOf("key9999", 1000), DenialState::Holds);
    const std::string tooLong(KnownDenials::kLongestSignature, 'x');
    publish(tooLong, 1000, 500);
    EXPECT_EQ(denialStateOf(tooLong, 1000), DenialState::None);
    publish(std::vector<Check>(KnownDenials::kMostLogs + 1, checkOf("many")), 1000,
            std::vector<Verdict>(KnownDenials::kMostLogs + 1, Verdict{0, 500, 500}));
}

TEST_F(KnownDenialsTest, LoseNoSlotToAKilledWorkerAndThatOfAStoppedOne) {
    // behind the generations and the headings are the records, each of which begins with its sequence
    const std::size_t generations = memory.size() / 16;
    const std::size_t slots = (memory.size() - generations) / (4 * KnownDenials::kSlotBytes) * 4;
    const std::size_t records = generations + slots * KnownDenials::kHeadingBytes;
    constexpr std::size_t kRecordBytes = KnownDenials::kSlotBytes - KnownDenials::kHeadingBytes;
    std::mt19937 random(1);
    for (int round = 0; round < 20; round++) {
        const bool isKilled = round % 2 == 0;
        OtherProcess writer;
        const auto before = memory;
        publish("key" + std::to_string(round), 1000, 500);
        for (std::size_t at = records; at < records + slots * kRecordBytes; at += kRecordBytes) {
            tear(std::span(memory).subspan(at, kRecordBytes), std::span(before).subspan(at, kRecordBytes), writer.id(),
                 random);
        }
        EXPECT_EQ(denialStateOf("key" + std::to_string(round), 1000), DenialState::None) << round;
        if (isKilled) {
            writer.end();
        }
        for (const char* key : {"a", "b", "c", "d", "e"}) {
            publish(key, 1000, 500);
            EXPECT_EQ(denialStateOf(key, 1000), DenialState::Holds) << round;
        }
    }
}

TEST_F(KnownDenialsTest, AreErased) {
    publish("a", 1000, 500);
    publish("b", 1000, 500);
    denials.erase(signatureOf("a"));
    denials.erase(signatureOf("c"));
    EXPECT_EQ(denialStateOf("a", 1000), DenialState::None);
    EXPECT_EQ(denialStateOf("b", 1000), DenialState::Holds);
    publish("a", 1000, 500);
    EXPECT_EQ(denialStateOf("a", 1000), DenialState::Holds);
}

TEST_F(KnownDenialsTest, EndWhenEntriesLeaveTheirLogs) {
    const std::vector<Check> two = {checkOf("a", 1), checkOf("b", 9)};
    publish(two, 1000, {Verdict{0, 500, 500}, Verdict{3, 500, 0}});
    publish("a", 1000, 500);
    publish("c", 1000, 500);
    denials.entriesLeave(signatureOf({checkOf("b", 2)}).logs());  // the limit does not matter
    EXPECT_EQ(denialStateOf(signatureOf(two), 1000), DenialState::None);
    EXPECT_EQ(denialStateOf("a", 1000), DenialState::Holds);
    EXPECT_EQ(denialStateOf("c", 1000), DenialState::Holds);
}

TEST_F(KnownDenialsTest, AreNotPublishedIfEntriesHaveLeft) {
    const Signature signature = signatureOf("a");
    const std::vector<Check> checks = {checkOf("a")};
    const std::vector<Verdict> verdicts = {Verdict{0, 500, 500}};
    const std::uint32_t sent = denials.generation(signature);
    denials.entriesLeave(signature.logs());
    denials.publish(signature, sent, 1000, checks, verdicts);
    EXPECT_EQ(denialStateOf(signature, 1000), DenialState::None);
    denials.publish(signature, denials.generation(signature), 1000, checks, verdicts);
    EXPECT_EQ(denialStateOf(signature, 1000), DenialState::Holds);
}

TEST(SignatureTest, DiffersForEachParameterOfACheck) {
    const Check usual = checkOf("rl:sliding:api:{a}");
    std::vector<Check> each(9, usual);
    each[1].key = "rl:sliding:api:{b}";
    each[2].limit++;
    each[3].windowMs++;
    each[4].algorithm = Algorithm::Compact;
    each[5].cost = 2;
    each[6].delayMs = 1;
    each[7].blockMs = 1;
    each[8].aheadMs = 1;
    std::vector<Signature> signatures;
    for (const Check& check : each) {
        signatures.emplace_back().assign(1, {&check, 1});
    }
    signatures.emplace_back().assign(2, {&usual, 1});
    signatures.emplace_back().assign(1, each);
    for (std::size_t i = 0; i < signatures.size(); i++) {
        for (std::size_t j = 0; j < signatures.size(); j++) {
            EXPECT_EQ(signatures[i] == signatures[j], i == j) << i << " and " << j;
            EXPECT_EQ(signatures[i].hash == signatures[j].hash, i == j) << i << " and " << j;
        }
    }
    EXPECT_EQ(signatures[0].logHashes, signatures[2].logHashes) << "the same log";
    EXPECT_NE(signatures[0].logHashes, signatures[1].logHashes);
    EXPECT_EQ(signatures[0].logs().front(), Signature::hashOfLog(usual.key));
    EXPECT_EQ(signatures.back().logs().size(), Signature::kMostLogs) << "a signature has at most that number of logs";
}

/// With concurrent writers of one set, a reader sees a complete denial or none.
TEST_F(KnownDenialsTest, AreReadCompletely) {
    const Signature signature = signatureOf("same");
    const std::vector<Check> checks = {checkOf("same")};
    std::atomic<bool> stop = false;
    std::vector<std::thread> writers;
    for (std::uint64_t id = 1; id <= 2; id++) {
        writers.emplace_back([&, id] {
            KnownDenials mine(memory.data(), memory.size(), gettid());  // as another process sees it
            for (std::uint64_t round = 0; !stop; round++) {
                const auto value = static_cast<std::int64_t>(round * 2 + id);
                const std::vector<Verdict> verdicts = {Verdict{value, value, 1'000'000 + value}};
                mine.publish(signature, mine.generation(signature), 0, checks, verdicts);
                if (round % 16 == 0) {
                    mine.erase(signature);
                    mine.entriesLeave(signature.logs());
                }
            }
        });
    }
    int found = 0;
    for (int i = 0; i < 100'000; i++) {
        std::array<Verdict, 1> verdict;
        if (denials.find(signature, 950, verdict) != DenialState::None) {
            found++;
            ASSERT_EQ(verdict[0].resetMs, std::max<std::int64_t>(verdict[0].remaining - 950, 0));
            ASSERT_EQ(verdict[0].retryMs, verdict[0].remaining + 999'050);
            denials.claim(signature, 950);
        }
    }
    stop = true;
    for (std::thread& writer : writers) {
        writer.join();
    }
    EXPECT_GT(found, 0);
}

/// If several workers find a due denial at the same time, one of them claims it.
TEST_F(KnownDenialsTest, AreClaimedByOneOfManyThreads) {
    constexpr int kRounds = 20;
    constexpr int kThreads = 3;
    std::atomic<int> claims = 0;
    for (int round = 0; round < kRounds; round++) {
        const auto sent = static_cast<std::uint64_t>(round) * 10'000;
        for (int key = 0; key < 4; key++) {
            publish("key" + std::to_string(key), sent, 3'600'000);
        }
        std::vector<std::thread> workers;
        for (int i = 0; i < kThreads; i++) {
            workers.emplace_back([&] {
                for (int key = 0; key < 4; key++) {
                    const Signature signature = signatureOf("key" + std::to_string(key));
                    std::array<Verdict, 1> verdict;
                    if (denials.find(signature, sent + 960, verdict) == DenialState::Due &&
                        denials.claim(signature, sent + 960)) {
                        claims++;
                    }
                }
            });
        }
        for (std::thread& worker : workers) {
            worker.join();
        }
    }
    EXPECT_EQ(claims, kRounds * 4);
}

}  // namespace
}  // namespace sliding_log
