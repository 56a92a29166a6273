#include "text.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <ctime>

#include "limit/bounds.hpp"
#include "limit/number.hpp"
#include "utf8.hpp"

namespace sliding_log::tool {

std::string printable(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        if (c < ' ' || c > '~' || c == '\\') {
            std::array<char, 5> escaped;
            std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(c));
            text.append(escaped.data());
        } else {
            text.push_back(c);
        }
    }
    return text;
}

std::string grouped(std::int64_t number) {
    std::string text = std::to_string(number);
    const std::size_t first = number < 0 ? 1 : 0;
    for (std::size_t at = text.size(); at > first + 3;) {
        at -= 3;
        text.insert(at, 1, ',');
    }
    return text;
}

std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
    return grouped(number).append(" ").append(number == 1 ? one : many);
}

std::string decimal(double number, int digits) {
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "%.*f", digits, number);
    return text.data();
}

std::string byteSize(double bytes) {
    constexpr std::array<const char*, 6> units = {" B", " kB", " MB", " GB", " TB", " PB"};
    std::size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < units.size()) {
        bytes /= 1000;
        unit++;
    }
    return decimal(bytes, unit > 0 && bytes < 99.95 ? 1 : 0) + units[unit];
}

std::string duration(std::int64_t ms) {
    if (ms < 0) {
        return "-" + duration(-ms);
    }
    if (ms < 1000) {
        return std::to_string(ms) + " ms";
    }
    if (ms < 60'000) {
        return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : decimal(static_cast<double>(ms) / 1000, 1) + " s";
    }
    struct Unit {
        std::int64_t ms;
        const char* name;
    };
    constexpr std::array<Unit, 4> units = {{{86'400'000, " d"}, {3'600'000, " h"}, {60'000, " m"}, {1000, " s"}}};
    std::size_t i = 0;
    while (ms < units[i].ms) {
        i++;
    }
    std::string text = std::to_string(ms / units[i].ms) + units[i].name;
    const std::int64_t rest = i + 1 < units.size() ? ms % units[i].ms / units[i + 1].ms : 0;
    return rest == 0 ? text : text + " " + std::to_string(rest) + units[i + 1].name;
}

std::string isoTime(std::int64_t ms) {
    std::int64_t seconds = ms / 1000;
    std::int64_t rest = ms % 1000;
    if (rest < 0) {
        seconds--;
        rest += 1000;
    }
    const std::time_t time = seconds;
    std::tm utc{};
    if (gmtime_r(&time, &utc) == nullptr) {
        return std::to_string(ms);
    }
    std::array<char, 96> text;
    std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(rest));
    return text.data();
}

std::optional<std::int64_t> parseTime(std::string_view text) {
    struct Unit {
        std::string_view name;
        std::int64_t ms;
    };
    constexpr std::array<Unit, 7> units = {
        {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}, {"w", 604'800'000}, {"", 1000}}};
    std::int64_t total = 0;
    if (text.empty()) {
        return std::nullopt;
    }
    while (!text.empty()) {
        std::int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc() || number < 0 || number > kLongestTimeMs) {
            return std::nullopt;
        }
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        const std::string_view name = text.substr(0, text.find_first_of("0123456789"));
        std::int64_t ms = 0;
        for (const Unit& unit : units) {
            ms = unit.name == name ? unit.ms : ms;
        }
        if (ms == 0) {
            return std::nullopt;
        }
        total += number * ms;
        if (total > kLongestTimeMs) {
            return std::nullopt;
        }
        text.remove_prefix(name.size());
    }
    return total;
}

std::optional<std::int64_t> parseNumber(std::string_view text) {
    constexpr std::string_view letters = "kmg";
    std::int64_t unit = 1;
    if (!text.empty()) {
        const std::size_t at = letters.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text.back()))));
        if (at != std::string_view::npos) {
            text.remove_suffix(1);
            unit = std::array<std::int64_t, 3>{1000, 1'000'000, 1'000'000'000}[at];
        }
    }
    const std::optional<std::int64_t> number = parseCount(text);
    return number && *number <= kLargestCount / unit ? std::optional(*number * unit) : std::nullopt;
}

bool isUtf8(std::string_view bytes) {
    while (!bytes.empty()) {
        const Decoded decoded = decodeUtf8(bytes);
        if (decoded.length == 0) {
            return false;
        }
        bytes.remove_prefix(decoded.length);
    }
    return true;
}

}  // namespace sliding_log::tool
