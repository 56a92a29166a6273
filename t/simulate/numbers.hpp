// A set of numbers, as options write it: 3,7-9.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simulate {

class Numbers {
  public:
    Numbers() = default;
    /// `sorted`: in ascending order, none twice.
    explicit Numbers(std::vector<std::uint64_t> sorted) : sorted_(std::move(sorted)) {}

    /// nullopt: the text is not such a set.
    static std::optional<Numbers> read(std::string_view text);

    bool contains(std::uint64_t number) const;
    bool isEmpty() const { return sorted_.empty(); }
    std::string text() const;

  private:
    std::vector<std::uint64_t> sorted_;
};

}  // namespace simulate
