// Any text as a redirect and as the value of a key.

#include "redis/hash_slots.hpp"

#include <string>

#include "fuzz.hpp"
#include "limit/key.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log;
    using namespace sliding_log::fuzz;
    Input input(data, size);
    const std::string_view text = input.rest();
    if (const std::optional<Redirect> redirect = readRedirect(text)) {
        require(redirect->hashSlot < kHashSlots && redirect->port >= 1 && redirect->port <= 65535,
                "a redirect leads somewhere");
        require(text.find(redirect->host) != std::string_view::npos, "to where it said");
    }
    require(hashSlotOf(text) < kHashSlots, "a key lies in a slot");
    std::string key(logKeyCapacity("rl:", "api"), '\0');
    key.resize(writeLogKey(key.data(), "rl:", "api", text, Secrecy::Open));
    if (isPlainValue(text) && !text.empty()) {
        require(hashSlotOf(key) == hashSlotOf(text), "which the client alone decides");
    }
    return 0;
}
