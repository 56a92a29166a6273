// Used by all targets: the input of the fuzzer as values, and assertions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace sliding_log::fuzz {

/// The input, read piece by piece. Beyond its end it has zeros and empty texts.
class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

    bool isEmpty() const { return rest_.empty(); }

    template <typename Number>
    Number number() {
        static_assert(std::is_integral_v<Number>);
        Number value = 0;
        const std::string_view bytes = text(sizeof value);
        if (!bytes.empty()) {
            std::memcpy(&value, bytes.data(), bytes.size());
        }
        return value;
    }

    /// From least to most, inclusive.
    std::int64_t between(std::int64_t least, std::int64_t most) {
        const std::uint64_t span = static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least);
        const auto number = this->number<std::uint64_t>();
        return least + static_cast<std::int64_t>(span == UINT64_MAX ? number : number % (span + 1));
    }

    std::string_view text(std::size_t most) {
        const std::string_view taken = rest_.substr(0, most);
        rest_.remove_prefix(taken.size());
        return taken;
    }

    std::string_view rest() { return text(rest_.size()); }

  private:
    std::string_view rest_;
};

/// Ends the run with the message if the condition is false.
inline void require(bool holds, const char* promise) {
    if (!holds) {
        std::fprintf(stderr, "not true: %s\n", promise);
        std::abort();
    }
}

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
