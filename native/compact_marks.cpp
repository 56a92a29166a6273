// algorithm=compact: marks behind the ring of a log, which tell the times of some places of it.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "compact_inside.hpp"

namespace sliding_log::native {

namespace {

constexpr double kStep = 1024;    // bytes of the ring from one place of a mark to the next
constexpr double kMarkBytes = 7;  // of its time and its offset
constexpr double kMarksAtOnce = 16;

double allOf(double size) {
    return std::ceil(size / kStep);
}

double positive(double number, double size) {
    return number - std::floor(number / size) * size;
}

/// How many places of marks are among some bytes of the ring, and which is the first.
struct Places {
    double count;
    double first;
};

Places placesAmong(double size, double at, double length) {
    const double all = allOf(size);
    const double first = std::ceil(at / kStep);
    const double past = at + length - size;
    return {.count = past > 0 ? all - first + std::ceil(past / kStep) : std::ceil((at + length) / kStep) - first,
            .first = std::fmod(first, all)};
}

std::string_view nameOf(RedisModuleString* key) {
    std::size_t length = 0;
    const char* text = api::StringPtrLen(key, &length);
    return {text, length};
}

/// Some of the marks of a log. There must be that many.
std::string_view marksOf(std::string_view log, double size, double from, double bytes) {
    return log.substr(kCompactHead + static_cast<std::size_t>(size + from), static_cast<std::size_t>(bytes));
}

}  // namespace

bool CompactLog::Marks::areThere(const Log& log) const {
    return log.size > 0 && log.base == kCompactHead &&
           Key(redis_, clock_, log.key).bytes().size() >=
               kCompactHead + static_cast<std::size_t>(log.size + allOf(log.size) * kMarkBytes);
}

/// The nearest ones that marks tell of.
void CompactLog::Marks::search(const Log& log, double time, const auto& placeAt, const auto& fromBehind, Near& found) {
    Key key(redis_, clock_, log.key);
    const double all = allOf(log.size);
    const auto [count, first] = placesAmong(log.size, log.begin, log.filled);
    double low = -1;
    double high = count;
    while (high - low > 1) {
        const bool isNext = high - low <= 2 * kMarksAtOnce;
        const double from = isNext ? low + 1 : std::floor((low + high) / 2);
        const double slot = std::fmod(first + from, all);
        const double till = std::min({from + kMarksAtOnce, from + all - slot, high});  // the first one behind
        Unpacker<double> marks(marksOf(key.bytes(), log.size, slot * kMarkBytes, (till - from) * kMarkBytes));
        bool hasFound = false;
        bool isAbove = false;
        for (double i = from; i < till && !isAbove; i++) {
            const double entry = marks.number(6);
            const double offset = marks.number(1);
            const std::optional<Place> place = placeAt((slot + i - from) * kStep, entry, offset);
            if (place && entry > time) {
                high = hasFound ? i : from;
                found.above = fromBehind(*place);
                isAbove = true;
            } else if (place) {
                low = i;
                found.below = *place;
                hasFound = true;
            }
        }
        if (!isAbove && (hasFound || isNext)) {
            low = till - 1;
        } else if (!isAbove) {
            high = from;  // none is there; those behind may be nearer, and are not looked for
        }
    }
}

CompactLog::Near CompactLog::Marks::near(const Log& log, double time) {
    const double ofNext = sizeOf(log.next);
    Near found{.below = {.entry = log.oldest, .passed = 0, .bytes = 0, .within = 0},
               .above = {.entry = log.newest, .passed = 0, .bytes = 0, .within = 0}};
    const bool hasLeft = log.left && log.left->size == log.size && nameOf(log.left->key) == nameOf(log.key);
    const bool isMarked = log.size > 0 && log.filled > 0 && areThere(log);
    if (!hasLeft && !isMarked) {
        return found;
    }
    const double ahead = log.oldest + spanOf(log, log.next);
    // the place at this byte of the ring, of the numbers after an entry
    const auto placeAt = [&](double at, double entry, double offset) -> std::optional<Place> {
        const double bytes = positive(at - log.begin, log.size) + offset;
        if (entry > ahead && entry <= log.newest && offset < kLongestNumber && bytes > 0 && bytes <= log.filled) {
            return Place{.entry = entry, .passed = 0, .bytes = ofNext + bytes, .within = 0};
        }
        return std::nullopt;
    };
    const auto fromBehind = [&](Place place) {
        place.bytes = ofNext + log.filled + sizeOf(log.latest) - place.bytes;
        return place;
    };
    if (isMarked) {
        search(log, time, placeAt, fromBehind, found);
    }
    const std::optional<Place> left = hasLeft ? placeAt(log.left->at, log.left->entry, 0) : std::nullopt;
    if (left && left->entry <= time && left->bytes > found.below.bytes) {
        found.below = *left;
    } else if (left && left->entry > time && fromBehind(*left).bytes > found.above.bytes) {
        found.above = fromBehind(*left);
    }
    return found;
}

/// So many bytes of the ring, from this one on, are not what marks tell of any more.
void CompactLog::Marks::unmark(Log& log, double at, double length) {
    log.unmarkedAt = at;
    log.unmarked += length;
    log.left.reset();
}

/// Clears their marks. An error if there is no memory.
std::string CompactLog::Marks::clear(Log& log) {
    const double size = log.size;
    const double length = std::min(log.unmarked + kLongestNumber + 1, size);
    log.unmarked = 0;
    if (!areThere(log)) {
        return {};
    }
    Key key(redis_, clock_, log.key);
    const auto clearSome = [&](double from, double bytes) -> std::string {
        const std::string_view marks = marksOf(key.bytes(), size, from, bytes);
        if (marks.find_first_not_of('\0') == std::string_view::npos) {
            return {};
        }
        const std::string nothing(marks.size(), '\0');
        const char* error = key.overwrite(kCompactHead + static_cast<std::size_t>(size + from), nothing);
        return error == nullptr ? "" : error;
    };
    const auto [count, first] = placesAmong(size, positive(log.unmarkedAt - kLongestNumber, size), length);
    const double atEnd = std::min(count, allOf(size) - first);
    std::string failed = clearSome(first * kMarkBytes, atEnd * kMarkBytes);
    if (failed.empty()) {
        failed = clearSome(0, (count - atEnd) * kMarkBytes);
    }
    return failed;
}

}  // namespace sliding_log::native
