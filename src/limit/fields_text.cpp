#include "limit/fields_text.hpp"

#include <cstring>

#include "limit/number.hpp"
#include "limit/verdict.hpp"

namespace sliding_log {

namespace {

char* append(char* out, std::string_view text) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
}

char* appendNumber(char* out, std::string_view parameter, std::int64_t value) {
    return append(append(out, parameter), DecimalText(value).view());
}

char* appendSeparator(const char* begin, char* out) {
    return out == begin ? out : append(out, ", ");
}

/// NAME is [A-Za-z0-9_.-], so the quoted string needs no escapes.
char* appendName(const char* begin, char* out, std::string_view name) {
    return append(append(append(appendSeparator(begin, out), "\""), name), "\"");
}

}  // namespace

char* appendMember(const char* begin, char* out, std::string_view member) {
    return append(appendSeparator(begin, out), member);
}

char* appendPolicyMember(const char* begin, char* out, std::string_view name, std::int64_t limit,
                         std::int64_t windowMs) {
    out = appendNumber(appendName(begin, out, name), ";q=", limit);
    return windowMs % 1000 == 0 ? appendNumber(out, ";w=", windowMs / 1000) : out;
}

char* appendLimitMember(const char* begin, char* out, std::string_view name, std::int64_t remaining,
                        std::int64_t resetMs) {
    out = appendNumber(appendName(begin, out, name), ";r=", remaining);
    return appendNumber(out, ";t=", secondsUp(resetMs));
}

}  // namespace sliding_log
