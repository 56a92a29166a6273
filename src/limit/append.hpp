// Text in a buffer of the caller.
#pragma once

#include <cstring>
#include <string_view>

namespace sliding_log {

/// Copies the text to `out`, where there is room, and returns its end.
inline char* append(char* out, std::string_view text) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
}

}  // namespace sliding_log
