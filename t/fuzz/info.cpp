// Any reply to INFO. Input: the text.

#include "redis/info.hpp"

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto info = readMemoryInfo(text)) {
        require(text.find("maxmemory_policy:") != std::string_view::npos, "all of it is there");
        require(!info->evictionUnsafe || text.find("allkeys-") != std::string_view::npos, "the policy is the one told");
    }
    return 0;
}
