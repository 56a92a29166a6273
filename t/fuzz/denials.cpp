// Known denials against what was published: one that is found was published, is not over, and says less time than it
// did. Input: one byte per operation and what it takes.

#include "store/denials.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "fuzz.hpp"

namespace sliding_log::fuzz {

namespace {

constexpr std::size_t kMostLogs = 6;            // more than a slot holds, too
constexpr std::size_t kLongestSignature = 392;  // that a slot holds

struct Published {
    std::uint64_t askedMs;
    std::vector<Verdict> verdicts;
};

std::vector<Verdict> denial(Input& input) {
    std::vector<Verdict> verdicts(1 + input.number<std::uint8_t>() % kMostLogs);
    for (Verdict& verdict : verdicts) {
        verdict = {input.number<std::uint8_t>(), input.between(0, 1 << 20), input.between(Verdict::kNever, 1 << 20)};
    }
    return verdicts;
}

void compare(const Verdict& found, const Verdict& published, std::int64_t passedMs) {
    require(found.remaining == published.remaining, "what remains is kept");
    require(found.resetMs == std::max<std::int64_t>(published.resetMs - passedMs, 0), "the reset comes nearer");
    require(found.retryMs == (published.retryMs == Verdict::kNever
                                  ? Verdict::kNever
                                  : std::max<std::int64_t>(published.retryMs - passedMs, 0)),
            "so does the retry, or it never comes");
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    alignas(64) std::array<char, 8 * Denials::kSlotBytes> memory{};
    Denials denials(memory.data(), memory.size());
    std::map<std::string, Published> model;
    std::uint64_t now = 1000;
    Input input(data, size);
    while (!input.isEmpty()) {
        const auto operation = input.number<std::uint8_t>();
        const std::string signature(input.text(1 + input.number<std::uint8_t>() % 4 * 130));
        const std::size_t hash = signature.empty() ? 0 : static_cast<unsigned char>(signature[0]) % 4;  // they collide
        if (operation % 4 == 0) {
            now += input.number<std::uint16_t>();
        } else if (operation % 4 == 1) {
            const std::vector<Verdict> verdicts = denial(input);
            denials.publish(signature, hash, now, verdicts);
            if (verdicts.size() <= Denials::kMostLogs && signature.size() <= kLongestSignature) {
                model[signature] = {now, verdicts};
            }
        } else if (operation % 4 == 2) {
            denials.forget(signature, hash);
            model.erase(signature);
        } else {
            const auto published = model.find(signature);
            std::vector<Verdict> found(published == model.end() ? 1 : published->second.verdicts.size());
            if (denials.find(signature, hash, now, found)) {
                require(published != model.end(), "only what was published is found");
                const auto passed = static_cast<std::int64_t>(now - published->second.askedMs);
                std::int64_t longest = 0;
                for (std::size_t i = 0; i < found.size(); i++) {
                    const Verdict& verdict = published->second.verdicts[i];
                    compare(found[i], verdict, passed);
                    longest = std::max(longest, verdict.retryMs == Verdict::kNever ? verdict.resetMs : verdict.retryMs);
                }
                require(passed < longest, "a denial ends with its last wait");
            }
        }
    }
    return 0;
}
