// Unique names from any random start: never twice, plain text, within the memory that a request has for them.

#include "limit/unique_id.hpp"

#include <string>
#include <unordered_set>

#include "fuzz.hpp"
#include "limit/key.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const auto one = input.number<std::uint64_t>();
    const auto other = input.number<std::uint64_t>();
    UniqueIds ids(one);
    UniqueIds others(other);
    const bool apart = (one ^ other) << 16 != 0;  // 48 bits are used
    std::unordered_set<std::string> seen;
    for (unsigned count = input.number<std::uint16_t>() % 300; count > 0; count--) {
        const std::string id(ids.next().view());
        require(id.size() <= 24 && isPlainValue(id), "an id is short and plain");
        require(seen.insert(id).second, "no id comes twice");
        if (apart) {
            require(seen.insert(std::string(others.next().view())).second, "nor one of another worker");
        }
    }
    return 0;
}
