// Writes JSON sequentially. Pure: values in, text out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sliding_log {

/// The caller balances objects and lists, and calls name() before each member of an object.
class Json {
  public:
    Json& beginObject() { return open('{'); }
    Json& endObject() { return close('}'); }
    Json& beginList() { return open('['); }
    Json& endList() { return close(']'); }

    /// The name of the next value: plain ASCII, not escaped.
    Json& name(std::string_view name);

    /// Any bytes: those that are not UTF-8 become U+FFFD.
    Json& text(std::string_view text);
    Json& number(std::uint64_t number);
    Json& boolean(bool value) { return literal(value ? "true" : "false"); }
    Json& null() { return literal("null"); }

    const std::string& view() const { return out_; }

  private:
    Json& open(char bracket);
    Json& close(char bracket);
    Json& literal(std::string_view literal);
    void separate();

    std::string out_;
    bool isFirst_ = true;  // the next value is the first one in its object or list
};

}  // namespace sliding_log
