// Prometheus's text format 0.0.4, written into memory of the right size. Pure: values in, text out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace sliding_log {

/// Used twice: without memory it computes the maximum length of the text, for any numbers; with this much memory it
/// writes the text.
class Exposition {
  public:
    struct Label {
        std::string_view name;
        std::string_view value;  // any bytes
    };
    using Labels = std::initializer_list<Label>;

    explicit Exposition(char* memory = nullptr) : memory_(memory) {}

    std::size_t size() const { return size_; }

    /// The head of a family, before its samples.
    void family(std::string_view name, std::string_view type, std::string_view help);

    void sample(std::string_view name, Labels labels, std::uint64_t value);

    /// The value in seconds.
    void sampleNs(std::string_view name, Labels labels, std::uint64_t ns);

  private:
    void put(std::string_view text);
    void putSeries(std::string_view name, Labels labels);
    void putEscaped(std::string_view value);
    void putNumber(std::uint64_t number, std::size_t digits = 1);

    char* memory_;
    std::size_t size_ = 0;
};

}  // namespace sliding_log
