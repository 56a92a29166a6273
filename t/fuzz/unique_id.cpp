// Unique names from any random start. They are unique and plain text, and fit the memory that a request has for them.

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
        require(seen.insert(id).second, "ids are unique");
        if (apart) {
            require(seen.insert(std::string(others.next().view())).second, "ids of different workers are unique");
        }
    }
    return 0;
}
