// JSON, written from front to back. Pure: values in, text out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sliding_log {

/// Whoever writes keeps objects and lists balanced, and names each member of an object first.
class Json {
  public:
    Json& beginObject() { return open('{'); }
    Json& endObject() { return close('}'); }
    Json& beginList() { return open('['); }
    Json& endList() { return close(']'); }

    /// The name of the next value; of our own choice, plain ASCII.
    Json& name(std::string_view name);

    /// Any bytes: what is no UTF-8 becomes U+FFFD.
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
    bool isFirst_ = true;  // nothing stands before the next value in its object or list
};

}  // namespace sliding_log
