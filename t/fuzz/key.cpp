// Key names from two values that clients chose: bounded, one hash tag, and never the same for different values.

#include "limit/key.hpp"

#include <string>

#include "fuzz.hpp"

namespace sliding_log::fuzz {

namespace {

constexpr std::string_view kPrefix = "rl:sliding:";
constexpr std::string_view kName = "api";
constexpr std::string_view kBegin = "rl:sliding:api:{";

std::string logKey(std::string_view value) {
    std::string key(logKeyCapacity(kPrefix, kName), '\0');
    key.resize(writeLogKey(key.data(), kPrefix, kName, value));
    require(key.starts_with(kBegin) && key.ends_with('}'), "a key is its prefix, name and value");
    const std::string written = key.substr(kBegin.size(), key.size() - kBegin.size() - 1);
    require(isPlainValue(written), "what is written is plain");
    require(isPlainValue(value) ? written == value : written.size() == kHashedLength && written.starts_with("sha1-"),
            "a plain value is kept, any other is hashed");
    return key;
}

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const std::string_view one = input.text(input.number<std::uint8_t>());
    const std::string_view other = input.rest();
    require((logKey(one) == logKey(other)) == (one == other), "one value, one key");
    return 0;
}
