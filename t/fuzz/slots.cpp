// Any text, as a redirect and as the value of a key.

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
                "a redirect has a hash slot and a port");
        require(text.find(redirect->host) != std::string_view::npos, "the host of a redirect is in its text");
    }
    require(hashSlotOf(text) < kHashSlots, "a key has a hash slot");
    std::string key(logKeyCapacity("rl:", "api"), '\0');
    key.resize(writeLogKey(key.data(), "rl:", "api", text, Secrecy::Open));
    if (isPlainValue(text) && !text.empty()) {
        require(hashSlotOf(key) == hashSlotOf(text), "the hash slot of a key depends on the value only");
    }
    return 0;
}
