#include "node/known_denials.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
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

    DenialState denialStateOf(std::string_view key, std::uint64_t now) { return denialStateOf({checkOf(key)}, now); }
    DenialState denialStateOf(const std::vector<Check>& checks, std::uint64_t now) {
        std::vector<Verdict> verdicts(checks.size());
        return denials.find(signatureOf(checks), checks, now, verdicts);
    }
    DenialState find(const std::vector<Check>& checks, std::uint64_t now, std::span<Verdict> verdicts) {
        return denials.find(signatureOf(checks), checks, now, verdicts);
    }
    bool claim(const std::vector<Check>& checks, std::uint64_t now) {
        return denials.claim(signatureOf(checks), checks, now);
    }
    void erase(const std::vector<Check>& checks) { denials.erase(signatureOf(checks), checks); }
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
    EXPECT_EQ(find(checks, 1000, found), DenialState::Holds);
    EXPECT_EQ(found[0].override.what, Override::What::Deny);
    EXPECT_EQ(found[1].override.what, Override::What::Limit);
    EXPECT_EQ(found[1].override.limit, kLargestCount);
    publish(checks, 1000, {Verdict{0, 500, 500}, Verdict{3, 500, 0}});
    EXPECT_EQ(find(checks, 1000, found), DenialState::Holds);
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
    EXPECT_FALSE(claim({checkOf("a")}, 1949)) << "a denial is not claimed before it is due";
    EXPECT_TRUE(claim({checkOf("a")}, 1950));
    EXPECT_FALSE(claim({checkOf("a")}, 1950));
    EXPECT_EQ(denialStateOf("a", 1999), DenialState::Holds) << "a claimed denial holds for the other workers";
    EXPECT_EQ(denialStateOf("a", 2000), DenialState::None) << "a claimed denial ends without a reply";
    publish("a", 1951, 3'600'000);
    EXPECT_EQ(denialStateOf("a", 2900), DenialState::Holds);
    EXPECT_EQ(denialStateOf("a", 2901), DenialState::Due);
    EXPECT_TRUE(claim({checkOf("none")}, 1950)) << "a request without a known denial asks the store";
}

TEST_F(KnownDenialsTest, EndWhenADelayMayAdmit) {
    Check held = checkOf("held");
    held.delayMs = 400;
    publish({held}, 1000, {Verdict{0, 700, 700}});
    EXPECT_EQ(denialStateOf({held}, 1298), DenialState::Holds);
    EXPECT_EQ(denialStateOf({held}, 1299), DenialState::None);
    publish({held}, 2000, {Verdict{0, 400, 400}});
    EXPECT_EQ(denialStateOf({held}, 2000), DenialState::None) << "a denial whose delay= may admit is not known";

    const std::vector<Check> both = {held, checkOf("other")};
    publish(both, 3000, {Verdict{0, 700, 700}, Verdict{0, 600, 600}});
    EXPECT_EQ(denialStateOf(both, 3598), DenialState::Holds) << "a denial lasts while one of its limits denies";
    EXPECT_EQ(denialStateOf(both, 3599), DenialState::None);
}

TEST_F(KnownDenialsTest, ReturnTheRemainingTime) {
    const std::vector<Check> two = {checkOf("a"), checkOf("b")};
    publish(two, 1000, {Verdict{7, 9000, 0}, Verdict{0, 400, 400}});
    std::array<Verdict, 2> verdicts;
    ASSERT_EQ(find(two, 1100, verdicts), DenialState::Holds);
    EXPECT_TRUE(verdicts[0].hasRoom());
    EXPECT_EQ(verdicts[0].remaining, 7);
    EXPECT_EQ(verdicts[0].resetMs, 8900);
    EXPECT_EQ(verdicts[1].retryMs, 300);
}

TEST_F(KnownDenialsTest, AreNotFoundByAnotherSignatureWithTheSameHash) {
    publish("a", 1000, 500);
    for (const char* key : {"b", "aa"}) {
        const Check check = checkOf(key);
        Signature other = signatureOf(key);
        other.identityHash = signatureOf("a").identityHash;
        Verdict verdict;
        EXPECT_EQ(denials.find(other, {&check, 1}, 1000, {&verdict, 1}), DenialState::None);
    }
}

TEST_F(KnownDenialsTest, UseTheirMemoryOnly) {
    for (int i = 0; i < 10000; i++) {
        publish("key" + std::to_string(i), 1000, 500 + i);
    }
    EXPECT_EQ(denialStateOf("key9999", 1000), DenialState::Holds);
    const std::string tooLong(KnownDenials::kLongestIdentity, 'x');
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
    erase({checkOf("a")});
    erase({checkOf("c")});
    EXPECT_EQ(denialStateOf("a", 1000), DenialState::None);
    EXPECT_EQ(denialStateOf("b", 1000), DenialState::Holds);
    publish("a", 1000, 500);
    EXPECT_EQ(denialStateOf("a", 1000), DenialState::Holds);
}

Check costing(std::int64_t cost, std::string_view key = "a", std::int64_t limit = 100) {
    Check check = checkOf(key, limit);
    check.cost = cost;
    return check;
}

TEST_F(KnownDenialsTest, HoldForLargerCosts) {
    publish({costing(50)}, 1000, {Verdict{30, 100, 500}});
    std::array<Verdict, 1> verdict;
    ASSERT_EQ(find({costing(50)}, 1100, verdict), DenialState::Holds);
    EXPECT_EQ(verdict[0].retryMs, 400);
    ASSERT_EQ(find({costing(100)}, 1100, verdict), DenialState::Holds);
    EXPECT_EQ(verdict[0].retryMs, 400) << "it waits at least as long";
    EXPECT_EQ(verdict[0].remaining, 30);
    EXPECT_EQ(verdict[0].resetMs, 0);
    ASSERT_EQ(find({costing(101)}, 1100, verdict), DenialState::Holds);
    EXPECT_EQ(verdict[0].retryMs, Verdict::kNever) << "there is never room for more than the limit";
    for (const std::int64_t smaller : {0, 1, 30, 31, 49}) {
        EXPECT_EQ(denialStateOf({costing(smaller)}, 1100), DenialState::None) << smaller;
    }
    EXPECT_EQ(denialStateOf({costing(60)}, 1499), DenialState::None) << "no longer than that of the smaller cost";
    Check other = costing(60);
    other.delayMs = 1;
    EXPECT_EQ(denialStateOf({other}, 1100), DenialState::None) << "what else is asked has to be the same";

    erase({costing(49)});
    EXPECT_EQ(denialStateOf({costing(50)}, 1100), DenialState::Holds) << "an admission of a smaller cost says nothing";
    erase({costing(60)});
    EXPECT_EQ(denialStateOf({costing(50)}, 1100), DenialState::None);
}

TEST_F(KnownDenialsTest, HoldForNoOtherCostOfASample) {
    Check sampled = costing(50);
    sampled.algorithm = Algorithm::Sampled;
    sampled.sample = 10;
    publish({sampled}, 1000, {Verdict{30, 100, 500}});
    EXPECT_EQ(denialStateOf({sampled}, 1000), DenialState::Holds);
    sampled.cost = 60;
    EXPECT_EQ(denialStateOf({sampled}, 1000), DenialState::None);
}

TEST_F(KnownDenialsTest, AreOfTheLimitThatDenies) {
    publish({costing(50, "a"), costing(50, "b")}, 1000, {Verdict{60, 100, 0}, Verdict{30, 100, 500}});
    std::array<Verdict, 2> verdicts;
    ASSERT_EQ(find({costing(1, "a"), costing(50, "b")}, 1050, verdicts), DenialState::Holds);
    EXPECT_TRUE(verdicts[0].hasRoom());
    ASSERT_EQ(find({costing(60, "a"), costing(51, "b")}, 1050, verdicts), DenialState::Holds);
    EXPECT_TRUE(verdicts[0].hasRoom());
    ASSERT_EQ(find({costing(61, "a"), costing(51, "b")}, 1050, verdicts), DenialState::Holds);
    EXPECT_EQ(verdicts[0].retryMs, 50) << "it has no room for that before more of it is available";
    ASSERT_EQ(find({costing(101, "a"), costing(51, "b")}, 1050, verdicts), DenialState::Holds);
    EXPECT_EQ(verdicts[0].retryMs, Verdict::kNever);
    EXPECT_EQ(denialStateOf({costing(100, "a"), costing(49, "b")}, 1050), DenialState::None);

    // both deny, one for longer
    publish({costing(10, "c"), costing(10, "d")}, 1000, {Verdict{5, 50, 100}, Verdict{5, 50, 900}});
    EXPECT_EQ(denialStateOf({costing(10, "c"), costing(9, "d")}, 1098), DenialState::Holds);
    EXPECT_EQ(denialStateOf({costing(10, "c"), costing(9, "d")}, 1099), DenialState::None);
    ASSERT_EQ(find({costing(9, "c"), costing(11, "d")}, 1020, verdicts), DenialState::Holds);
    EXPECT_EQ(verdicts[0].retryMs, 30) << "what is left is too little until more of it is available";
    ASSERT_EQ(find({costing(5, "c"), costing(11, "d")}, 1020, verdicts), DenialState::Holds);
    EXPECT_TRUE(verdicts[0].hasRoom());
}

TEST_F(KnownDenialsTest, SayWhatARecordDeniesOfAnyCost) {
    publish({costing(5)}, 1000, {Verdict{0, 900, 900, 0, {Override::What::Deny, 0, 0}}});
    std::array<Verdict, 1> verdict;
    ASSERT_EQ(find({costing(500)}, 1000, verdict), DenialState::Holds);
    EXPECT_EQ(verdict[0].retryMs, 900) << "the record decides, not the limit";
    publish({costing(5, "b")}, 1000, {Verdict{0, 900, 900, 0, {Override::What::Limit, 1000, 0}}});
    ASSERT_EQ(find({costing(500, "b")}, 1000, verdict), DenialState::Holds);
    EXPECT_EQ(verdict[0].retryMs, 900) << "of the limit of the record";
    ASSERT_EQ(find({costing(1001, "b")}, 1000, verdict), DenialState::Holds);
    EXPECT_EQ(verdict[0].retryMs, Verdict::kNever);
}

TEST_F(KnownDenialsTest, AreClaimedByALargerCostAndHoldForTheOthers) {
    publish({costing(50)}, 1000, {Verdict{0, 900, 3'600'000}});
    EXPECT_EQ(denialStateOf({costing(60)}, 1950), DenialState::Due);
    EXPECT_TRUE(claim({costing(40)}, 1950)) << "it does not hold for that";
    EXPECT_EQ(denialStateOf({costing(60)}, 1950), DenialState::Due);
    EXPECT_TRUE(claim({costing(60)}, 1950));
    EXPECT_FALSE(claim({costing(50)}, 1950));
    EXPECT_FALSE(claim({costing(70)}, 1950));
    EXPECT_EQ(denialStateOf({costing(50)}, 1960), DenialState::Holds);
    publish({costing(60)}, 1950, {Verdict{0, 900, 3'600'000}});
    EXPECT_EQ(denialStateOf({costing(50)}, 1999), DenialState::Holds) << "until the second is over";
    EXPECT_EQ(denialStateOf({costing(50)}, 2000), DenialState::None);
    EXPECT_EQ(denialStateOf({costing(60)}, 2000), DenialState::Holds);
    publish({costing(50)}, 2001, {Verdict{0, 900, 3'600'000}});
    EXPECT_EQ(denialStateOf({costing(50)}, 2002), DenialState::Holds);
    EXPECT_EQ(denialStateOf({costing(60)}, 2950), DenialState::Holds) << "the later one holds";
}

/// Denials of many costs of one identity, and of other identities in the same set: the former replace none of the
/// latter.
TEST_F(KnownDenialsTest, OfManyCostsPushOutNoOthers) {
    KnownDenials one(memory.data(), 5 * KnownDenials::kSlotBytes);  // of one set
    const auto state = [&](const Check& check, std::uint64_t now) {
        std::array<Verdict, 1> verdict;
        return one.find(signatureOf({check}), {&check, 1}, now, verdict);
    };
    const auto deny = [&](const Check& check, std::uint64_t sent, std::int64_t retryMs) {
        const Signature signature = signatureOf({check});
        const std::array<Verdict, 1> verdict = {Verdict{0, retryMs, retryMs}};
        one.publish(signature, one.generation(signature), sent, {&check, 1}, verdict);
    };
    for (const char* key : {"x", "y", "z"}) {
        deny(costing(1, key), 1000, 600);
    }
    std::mt19937 random(2);
    for (int i = 0; i < 1000; i++) {
        deny(costing(static_cast<std::int64_t>(random() % 100)), 1000 + random() % 500,
             static_cast<std::int64_t>(random() % 2000));
    }
    for (const char* key : {"x", "y", "z"}) {
        EXPECT_EQ(state(costing(1, key), 1500), DenialState::Holds) << key;
    }
}

/// Compared with a list of all denials: no request is denied that none of them denies, no request that never has room
/// is told to ask again, and a denial of just now is known.
TEST_F(KnownDenialsTest, DenyWhatAListOfThemDenies) {
    struct Known {
        std::vector<Check> checks;
        std::vector<Verdict> verdicts;
        std::uint64_t sent;

        bool denies(std::size_t i, const Check& asked, std::uint64_t now) const {
            const std::int64_t retry = verdicts[i].retryMs;
            return retry != 0 && asked.cost >= checks[i].cost && now < sent + KnownDenials::kLastsMs &&
                   (retry == Verdict::kNever ||
                    now + static_cast<std::uint64_t>(asked.delayMs) + 1 < sent + static_cast<std::uint64_t>(retry));
        }
        bool denies(const std::vector<Check>& asked, std::uint64_t now) const {
            for (std::size_t i = 0; i < asked.size(); i++) {
                if (denies(i, asked[i], now)) {
                    return true;
                }
            }
            return false;
        }
    };
    std::mt19937 random(3);
    const auto upTo = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
    const char* const keys[] = {"a", "b", "c", "d", "e", "f"};
    int found = 0;
    for (std::size_t logs = 1; logs <= 3; logs++) {
        std::map<std::string, std::vector<Known>> all;
        std::uint64_t now = 1000 + 1'000'000 * logs;
        for (int round = 0; round < 20'000; round++) {
            now += random() % 20;
            const char* const key = keys[random() % std::size(keys)];
            std::vector<Check> asked;
            std::string names;
            for (std::size_t i = 0; i < logs; i++) {
                asked.push_back(costing(upTo(120), key));
                asked.back().windowMs += static_cast<std::int64_t>(i);
                asked.back().delayMs = key[0] < 'c' ? 100 : 0;
            }
            std::vector<Known>& known = all[key];
            std::vector<Verdict> verdicts(logs);
            const DenialState state = find(asked, now, verdicts);
            bool isDenied = false;
            for (const Known& each : known) {
                isDenied = isDenied || each.denies(asked, now);
            }
            if (state != DenialState::None) {
                found++;
                ASSERT_TRUE(isDenied) << round;
                bool denies = false;
                for (std::size_t i = 0; i < logs; i++) {
                    denies = denies || !verdicts[i].hasRoom();
                    if (asked[i].cost > 100) {
                        ASSERT_EQ(verdicts[i].retryMs, Verdict::kNever) << round;
                    }
                }
                ASSERT_TRUE(denies) << round;
            }
            if (state == DenialState::None || claim(asked, now)) {
                Known denial{asked, {}, now};
                bool isAnyDenied = false;
                for (const Check& check : asked) {
                    const bool hasRoom = check.cost <= 100 && upTo(2) == 0;
                    const std::int64_t reset = 1 + upTo(50);
                    denial.verdicts.push_back(hasRoom
                                                  ? Verdict{check.cost, reset, 0}
                                                  : Verdict{upTo(check.cost), reset,
                                                            check.cost > 100 ? Verdict::kNever : reset + upTo(1500)});
                    isAnyDenied = isAnyDenied || !hasRoom;
                }
                if (isAnyDenied) {
                    publish(denial.checks, now, denial.verdicts);
                    known.push_back(denial);
                    if (known.size() > 50) {
                        known.erase(known.begin());
                    }
                    ASSERT_TRUE(denialStateOf(asked, now) != DenialState::None || !denial.denies(asked, now)) << round;
                } else {
                    erase(asked);
                    std::erase_if(known, [&](const Known& each) { return each.denies(asked, each.sent); });
                    ASSERT_EQ(denialStateOf(asked, now), DenialState::None) << round;
                }
            }
            if (random() % 50 == 0) {
                denials.entriesLeave(signatureOf(asked).logs());
                known.clear();
                ASSERT_EQ(denialStateOf(asked, now), DenialState::None);
            }
        }
    }
    EXPECT_GT(found, 1000);
}

TEST_F(KnownDenialsTest, EndWhenEntriesLeaveTheirLogs) {
    const std::vector<Check> two = {checkOf("a", 1), checkOf("b", 9)};
    publish(two, 1000, {Verdict{0, 500, 500}, Verdict{3, 500, 0}});
    publish("a", 1000, 500);
    publish("c", 1000, 500);
    denials.entriesLeave(signatureOf({checkOf("b", 2)}).logs());  // the limit does not matter
    EXPECT_EQ(denialStateOf(two, 1000), DenialState::None);
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
    EXPECT_EQ(denialStateOf(checks, 1000), DenialState::None);
    denials.publish(signature, denials.generation(signature), 1000, checks, verdicts);
    EXPECT_EQ(denialStateOf(checks, 1000), DenialState::Holds);
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
    EXPECT_EQ(signatures[0].identity(), signatures[5].identity()) << "but for the cost the same is asked";
    EXPECT_EQ(signatures[0].identityHash, signatures[5].identityHash);
    EXPECT_NE(signatures[0].identity(), signatures[6].identity());
    EXPECT_EQ(signatures[0].logHashes, signatures[2].logHashes) << "the same log";
    EXPECT_NE(signatures[0].logHashes, signatures[1].logHashes);
    EXPECT_EQ(signatures[0].logs().front(), Signature::hashOfLog(usual.key));
    EXPECT_EQ(signatures.back().logs().size(), Signature::kMostLogs) << "a signature has at most that number of logs";
}

TEST(SignatureTest, OfAnyCostsIsOfNothingElse) {
    Check check = checkOf("rl:sliding:api:{a}");
    Signature one;
    Signature other;
    one.assign(1, {&check, 1});
    other = one;
    EXPECT_FALSE(one.hasCosts());
    one.leaveOutCosts();
    EXPECT_FALSE(one == other) << "one is of all costs, the other of 1";
    check.cost = 5;
    other.assign(1, {&check, 1});
    EXPECT_TRUE(other.hasCosts());
    EXPECT_FALSE(one == other);
    other.leaveOutCosts();
    EXPECT_TRUE(one == other);
    check.algorithm = Algorithm::Sampled;
    other.assign(1, {&check, 1});
    check.cost = 6;
    one.assign(1, {&check, 1});
    one.leaveOutCosts();
    other.leaveOutCosts();
    EXPECT_FALSE(one == other) << "under sampled a cost says what is drawn";
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
                    mine.erase(signature, checks);
                    mine.entriesLeave(signature.logs());
                }
            }
        });
    }
    int found = 0;
    for (int i = 0; i < 100'000; i++) {
        std::array<Verdict, 1> verdict;
        if (denials.find(signature, checks, 950, verdict) != DenialState::None) {
            found++;
            ASSERT_EQ(verdict[0].resetMs, std::max<std::int64_t>(verdict[0].remaining - 950, 0));
            ASSERT_EQ(verdict[0].retryMs, verdict[0].remaining + 999'050);
            denials.claim(signature, checks, 950);
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
                    const std::string name = "key" + std::to_string(key);
                    const std::vector<Check> checks = {checkOf(name)};
                    if (denialStateOf(checks, sent + 960) == DenialState::Due && claim(checks, sent + 960)) {
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
