#include "metrics/exposition.hpp"

#include <charconv>
#include <cstring>

namespace sliding_log {

namespace {

constexpr std::size_t kLongestNumber = 20;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::size_t kDigitsOfNs = 9;

}  // namespace

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
    for (const std::string_view each :
         {std::string_view("# HELP "), name, std::string_view(" "), help, std::string_view("\n# TYPE "), name,
          std::string_view(" "), type, std::string_view("\n")}) {
        put(each);
    }
}

void Exposition::sample(std::string_view name, Labels labels, std::uint64_t value) {
    putSeries(name, labels);
    putNumber(value);
    put("\n");
}

void Exposition::sampleNs(std::string_view name, Labels labels, std::uint64_t ns) {
    putSeries(name, labels);
    putNumber(ns / kNsPerSecond);
    put(".");
    putNumber(ns % kNsPerSecond, kDigitsOfNs);
    put("\n");
}

void Exposition::put(std::string_view text) {
    if (memory_ != nullptr) {
        std::memcpy(memory_ + size_, text.data(), text.size());
    }
    size_ += text.size();
}

void Exposition::putSeries(std::string_view name, Labels labels) {
    put(name);
    std::string_view before = "{";
    for (const Label& label : labels) {
        put(before);
        put(label.name);
        put("=\"");
        putEscaped(label.value);
        put("\"");
        before = ",";
    }
    put(labels.size() == 0 ? " " : "} ");
}

/// A scrape with a byte that is not UTF-8 would be refused as a whole. Names are usually ASCII, so such bytes are all
/// replaced alike.
void Exposition::putEscaped(std::string_view value) {
    for (const char& c : value) {
        const std::string_view one(&c, 1);
        put(c == '\\'                              ? "\\\\"
            : c == '"'                             ? "\\\""
            : c == '\n'                            ? "\\n"
            : static_cast<unsigned char>(c) >= 128 ? "?"
                                                   : one);
    }
}

void Exposition::putNumber(std::uint64_t number, std::size_t digits) {
    if (memory_ == nullptr) {
        size_ += kLongestNumber;
        return;
    }
    char text[kLongestNumber];
    const char* end = std::to_chars(text, text + sizeof text, number).ptr;
    const auto length = static_cast<std::size_t>(end - text);
    for (std::size_t i = length; i < digits; i++) {
        put("0");
    }
    put({text, length});
}

}  // namespace sliding_log
