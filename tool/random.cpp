#include "random.hpp"

#include <array>
#include <cstdio>
#include <random>

namespace sliding_log::tool {

std::uint64_t randomBits() {
    std::random_device device;
    return static_cast<std::uint64_t>(device()) << 32 | device();
}

std::string ownKey(std::string_view prefix) {
    std::array<char, 17> digits;
    std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(randomBits()));
    return std::string(prefix) + "sliding-log-tool:{" + digits.data() + "}";
}

}  // namespace sliding_log::tool
