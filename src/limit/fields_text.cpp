#include "limit/fields_text.hpp"

#include <cstring>

#include "limit/append.hpp"
#include "limit/check.hpp"
#include "limit/int128.hpp"
#include "limit/number.hpp"

namespace sliding_log {

namespace {

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

Quota quotaOf(std::int64_t limit, std::int64_t burst, std::int64_t windowMs) {
    if (burst == 0 || limit == 0) {
        return {.most = limit, .windowMs = windowMs};
    }
    const Int128 burstTimesWindow = Int128{burst} * windowMs;
    const bool isWhole = burstTimesWindow % limit == 0 && burstTimesWindow / limit <= kLongestWaitMs;
    return {.most = burst, .windowMs = isWhole ? static_cast<std::int64_t>(burstTimesWindow / limit) : 0};
}

char* appendPolicyMember(const char* begin, char* out, std::string_view name, const Quota& quota) {
    out = appendNumber(appendName(begin, out, name), ";q=", quota.most);
    if (quota.isAtOnce) {
        return append(out, ";qu=\"concurrent-requests\"");
    }
    const bool isTold = quota.windowMs > 0 && quota.windowMs % 1000 == 0;
    return isTold ? appendNumber(out, ";w=", quota.windowMs / 1000) : out;
}

char* appendLimitMember(const char* begin, char* out, std::string_view name, std::int64_t remaining,
                        std::int64_t resetMs) {
    out = appendNumber(appendName(begin, out, name), ";r=", remaining);
    return resetMs == kNoTime ? out : appendNumber(out, ";t=", secondsUp(resetMs));
}

}  // namespace sliding_log
