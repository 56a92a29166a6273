// Writes JSON: ASCII only, so that it is safe on a terminal, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sliding_log::tool {

/// Builds one value. Commas between members and elements are added automatically.
class Json {
  public:
    Json& beginObject() { return open('{'); }
    Json& endObject() { return close('}'); }
    Json& beginArray() { return open('['); }
    Json& endArray() { return close(']'); }

    Json& name(std::string_view text);

    Json& text(std::string_view value);
    Json& number(std::int64_t value) { return raw(std::to_string(value)); }
    Json& number(double value, int digits);
    Json& boolean(bool value) { return raw(value ? "true" : "false"); }
    Json& null() { return raw("null"); }

    Json& member(std::string_view of, std::string_view value) { return name(of).text(value); }
    Json& member(std::string_view of, const char* value) { return name(of).text(value); }
    Json& member(std::string_view of, std::int64_t value) { return name(of).number(value); }

    /// Bytes from outside: a string if they are UTF-8. Otherwise a string with U+FFFD for each invalid byte, and the
    /// member `<of>_hex` with all bytes.
    Json& bytes(std::string_view of, std::string_view value);

    const std::string& line() const { return out_; }

  private:
    Json& open(char bracket);
    Json& close(char bracket);
    Json& raw(std::string_view value);
    void separate();

    std::string out_;
    bool comma_ = false;
};

}  // namespace sliding_log::tool
