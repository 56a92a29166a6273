// Any reply to INFO. Input: the text.

#include "redis/info.hpp"

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto info = readMemoryInfo(text)) {
        require(text.find("maxmemory_policy:") != std::string_view::npos, "an incomplete text is refused");
        require(!info->evictionUnsafe || text.find("allkeys-") != std::string_view::npos,
                "an unsafe policy is in the text");
    }
    return 0;
}
