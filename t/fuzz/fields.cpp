// The text of response fields for several limits of any name and number. It fits its capacity and is the expected list.

#include "limit/fields_text.hpp"

#include <array>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "limit/check.hpp"
#include "limit/number.hpp"

namespace sliding_log::fuzz {

namespace {

struct Limit {
    std::string name;
    std::int64_t limit;
    std::int64_t windowMs;
    std::int64_t remaining;
    std::int64_t resetMs;
};

constexpr std::int64_t kLongestWindowMs = 366LL * 24 * 3600 * 1000;

Limit take(Input& input) {
    constexpr std::string_view kAlphabet = "abcXYZ019_.-";
    std::string name = "n";
    for (unsigned char c : input.text(input.number<std::uint8_t>() % 64)) {
        name.push_back(kAlphabet[c % kAlphabet.size()]);
    }
    return {name, input.between(0, kLargestCount), input.between(1, kLongestWindowMs), input.between(0, kLargestCount),
            input.between(0, 2 * kLongestWindowMs)};
}

std::string expectedPolicy(const Limit& limit) {
    std::string text = '"' + limit.name + "\";q=" + std::to_string(limit.limit);
    return limit.windowMs % 1000 == 0 ? text + ";w=" + std::to_string(limit.windowMs / 1000) : text;
}

std::string expectedLimit(const Limit& limit) {
    const std::int64_t seconds = limit.resetMs / 1000 + (limit.resetMs % 1000 == 0 ? 0 : 1);
    return '"' + limit.name + "\";r=" + std::to_string(limit.remaining) + ";t=" + std::to_string(seconds);
}

/// Writes all members into memory whose size is the sum of their capacities.
template <typename Append, typename Expected>
void check(const std::vector<Limit>& limits, Append append, Expected expected) {
    std::size_t capacity = 0;
    std::string whole;
    for (const Limit& limit : limits) {
        capacity += fieldMemberCapacity(limit.name);
        whole += (whole.empty() ? "" : ", ") + expected(limit);
    }
    std::vector<char> memory(capacity);
    char* end = memory.data();
    for (const Limit& limit : limits) {
        end = append(memory.data(), end, limit);
    }
    require(std::string_view(memory.data(), static_cast<std::size_t>(end - memory.data())) == whole,
            "the field is a list with one member for each limit");
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    Input input(data, size);
    std::vector<Limit> limits;
    do {
        limits.push_back(take(input));
    } while (!input.isEmpty() && limits.size() < 32);
    check(
        limits,
        [](char* begin, char* out, const Limit& each) {
            return appendPolicyMember(begin, out, each.name, quotaOf(each.limit, 0, each.windowMs));
        },
        expectedPolicy);
    check(
        limits,
        [](char* begin, char* out, const Limit& each) {
            return appendLimitMember(begin, out, each.name, each.remaining, each.resetMs);
        },
        expectedLimit);
    return 0;
}
