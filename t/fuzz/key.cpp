// Keys of two values chosen by clients. They are bounded, have one hash tag, and differ if the values differ, also if
// one value is the hash of the other.

#include "limit/key.hpp"

#include <array>
#include <string>

#include "fuzz.hpp"

namespace sliding_log::fuzz {

namespace {

constexpr std::string_view kPrefix = "rl:sliding:";
constexpr std::string_view kName = "api";
constexpr std::string_view kBegin = "rl:sliding:api:{";

bool isHash(std::string_view value) {
    return value.size() == kHashedLength && value.starts_with(kHashMark) &&
           value.find_first_not_of("0123456789abcdef", kHashMark.size()) == std::string_view::npos;
}

std::string logKey(std::string_view value, Secrecy secrecy) {
    std::string key(logKeyCapacity(kPrefix, kName), '\0');
    key.resize(writeLogKey(key.data(), kPrefix, kName, value, secrecy));
    require(key.starts_with(kBegin) && key.ends_with('}'), "a key consists of prefix, name and value");
    const std::string written = key.substr(kBegin.size(), key.size() - kBegin.size() - 1);
    const bool isKept = secrecy == Secrecy::Open && isPlainValue(value);
    require(isPlainValue(written) != isHash(written), "the written value is plain or a hash");
    require(isKept ? written == value : isHash(written), "a plain value is kept, a secret or another value is hashed");
    require(shownValue(written, secrecy) == (secrecy == Secrecy::Open ? written : written.substr(0, 13)),
            "eight digits of a secret are shown");
    return key;
}

void check(std::string_view one, std::string_view other, Secrecy secrecy) {
    require((logKey(one, secrecy) == logKey(other, secrecy)) == (one == other),
            "two values have the same key only if they are the same");
    std::array<char, kHashedLength> hash;
    writeHashed(hash.data(), one);
    require(logKey(one, secrecy) != logKey({hash.data(), hash.size()}, secrecy),
            "the hash of a value has another key than the value");
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const std::string_view one = input.text(input.number<std::uint8_t>());
    const std::string_view other = input.rest();
    check(one, other, sliding_log::Secrecy::Open);
    check(one, other, sliding_log::Secrecy::Secret);
    return 0;
}
