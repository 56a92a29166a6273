// Known denials, compared with a model. A denial that is found was published, has not ended, no entry has left its logs
// since its call was sent, and its times have decreased. One that another one covers may not be stored, so either is
// found. It is due once. Input: one byte for each operation and its arguments.

#include "node/known_denials.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "fuzz.hpp"

namespace sliding_log::fuzz {

namespace {

constexpr std::size_t kMostAsked = 6;  // also more than a slot can have
constexpr std::string_view kKeys[] = {"a", "b", "c", "a key of some more words"};

struct Known {
    std::uint64_t sentMs;
    std::vector<Verdict> verdicts;
};

struct Sent {
    std::uint64_t atMs;
    std::uint32_t generation;
    bool isStale;  // an entry has left its logs since
};

/// Checks, and their denials in the model.
struct Asked {
    std::vector<Check> checks;
    Signature signature;
    Sent sent{};
    bool isSent = false;
    std::vector<Known> known{};

    bool asks(std::string_view key) const { return std::ranges::find(checks, key, &Check::key) != checks.end(); }
};

class Model {
  public:
    /// A check of one or more logs.
    Asked& choose(Input& input) {
        std::vector<Check> checks(1 + input.number<std::uint8_t>() % kMostAsked);
        for (Check& check : checks) {
            const auto choice = input.number<std::uint8_t>();
            check.key = kKeys[choice % 4];
            check.limit = choice / 4 % 2;
            check.delayMs = choice / 8 % 3 * 100;
        }
        Signature signature;
        signature.assign(1, checks);
        signature.identityHash %= 4;  // hashes collide
        Asked& asked = all_[signature.text];
        asked.checks = checks;
        asked.signature = signature;
        return asked;
    }

    void leave(std::string_view key) {
        for (auto& [text, asked] : all_) {
            if (asked.asks(key)) {
                asked.sent.isStale = true;
                asked.known.clear();
            }
        }
    }

  private:
    std::map<std::string, Asked> all_;
};

std::vector<Verdict> denial(Input& input, std::size_t count) {
    std::vector<Verdict> verdicts(count);
    for (Verdict& verdict : verdicts) {
        verdict = {input.number<std::uint8_t>(), input.between(0, 1 << 12), input.between(Verdict::kNever, 1 << 12)};
    }
    return verdicts;
}

bool isLater(const Verdict& found, const Verdict& published, std::int64_t passedMs) {
    const std::int64_t retry = published.retryMs;
    return found.remaining == published.remaining &&
           found.resetMs == std::max<std::int64_t>(published.resetMs - passedMs, 0) &&
           found.retryMs == (retry == Verdict::kNever ? retry : std::max<std::int64_t>(retry - passedMs, 0));
}

/// The time since the check was sent.
bool denies(const std::vector<Check>& checks, const std::vector<Verdict>& verdicts, std::int64_t passedMs) {
    for (std::size_t i = 0; i < verdicts.size(); i++) {
        const std::int64_t retry = verdicts[i].retryMs;
        if (retry == Verdict::kNever || passedMs < retry - checks[i].delayMs - 1) {
            return true;
        }
    }
    return false;
}

/// It lasts at most a second, and is due at the end of that.
bool isOf(const Known& known, const Asked& asked, const std::vector<Verdict>& found, DenialState state,
          std::uint64_t now) {
    const auto passed = static_cast<std::int64_t>(now - known.sentMs);
    const auto isThat = [&](const Verdict& one, const Verdict& other) { return isLater(one, other, passed); };
    return passed < 1000 && (state == DenialState::Due) <= (passed >= 950) &&
           denies(asked.checks, known.verdicts, passed) && std::ranges::equal(found, known.verdicts, isThat);
}

void find(KnownDenials& table, Asked& asked, std::uint64_t now) {
    std::vector<Verdict> found(asked.checks.size());
    const DenialState state = table.find(asked.signature, asked.checks, now, found);
    if (state == DenialState::None) {
        return;
    }
    require(std::ranges::any_of(asked.known, [&](const Known& known) { return isOf(known, asked, found, state, now); }),
            "only published denials are found that still deny, and none whose logs entries have left");
    if (state == DenialState::Due && now % 2 == 0) {
        require(table.claim(asked.signature, asked.checks, now), "the first claim succeeds");
        require(!table.claim(asked.signature, asked.checks, now), "the second claim fails");
        require(table.find(asked.signature, asked.checks, now, found) == DenialState::Holds, "what is claimed holds");
    }
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    alignas(64) std::array<char, 8 * KnownDenials::kSlotBytes> memory{};
    KnownDenials table(memory.data(), memory.size());
    Model model;
    std::uint64_t now = 1000;
    Input input(data, size);
    while (!input.isEmpty()) {
        const auto operation = input.number<std::uint8_t>() % 8;
        if (operation == 0) {
            now += input.number<std::uint16_t>() % 1024;
            continue;
        }
        if (operation == 1) {
            const std::string_view key = kKeys[input.number<std::uint8_t>() % 4];
            Check check;
            check.key = key;
            Signature signature;
            signature.assign(2, {&check, 1});
            table.entriesLeave(signature.logs());
            model.leave(key);
            continue;
        }
        Asked& asked = model.choose(input);
        if (operation == 2) {
            asked.sent = {now, table.generation(asked.signature), false};
            asked.isSent = true;
        } else if (operation == 3 && asked.isSent) {
            const std::vector<Verdict> verdicts = denial(input, asked.checks.size());
            table.publish(asked.signature, asked.sent.generation, asked.sent.atMs, asked.checks, verdicts);
            if (!asked.sent.isStale && verdicts.size() <= KnownDenials::kMostLogs &&
                denies(asked.checks, verdicts, 0)) {
                std::erase_if(asked.known, [&](const Known& known) { return known.sentMs + 1000 <= now; });
                asked.known.push_back({asked.sent.atMs, verdicts});
            }
        } else if (operation == 4) {
            table.erase(asked.signature, asked.checks);
            asked.known.clear();
        } else {
            find(table, asked, now);
        }
    }
    return 0;
}
