// Short names that no other request of any worker or node has.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sliding_log {

/// A name that no other request has.
class UniqueId {
  public:
    static constexpr std::size_t kRandomLength = 8;
    static constexpr std::size_t kLongest = kRandomLength + 11;  // a count of 64 bits in base 64

    std::string_view view() const { return {text_.data(), length_}; }

  private:
    friend class UniqueIds;

    std::array<char, kLongest> text_;
    std::uint8_t length_;
};

/// Eight random characters, drawn once per worker, then a count in base 64: 9 to 14 bytes, which Redis stores in its
/// 16-byte size class. With a thousand worker starts inside a window, the probability that two draw the same 48 bits is
/// about 10^-9. Even then nothing is lost, since the script notices an id that exists.
class UniqueIds {
  public:
    /// `random`: 48 or more bits from a cryptographic source, so that a client cannot forge an id.
    explicit UniqueIds(std::uint64_t random) {
        for (std::size_t i = 0; i < UniqueId::kRandomLength; i++) {
            latest_.text_[i] = kAlphabet[random >> (6 * i) & 63];
        }
    }

    const UniqueId& next() {
        std::uint8_t length = UniqueId::kRandomLength;
        std::uint64_t rest = count_++;
        do {
            latest_.text_[length++] = kAlphabet[rest & 63];
            rest >>= 6;
        } while (rest != 0);
        latest_.length_ = length;
        return latest_;
    }

  private:
    static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    UniqueId latest_{};
    std::uint64_t count_ = 0;
};

}  // namespace sliding_log
