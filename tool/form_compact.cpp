// algorithm=compact: a STRING, as the head of lua/compact_log.lua describes it.
#include <algorithm>
#include <array>

#include "failure.hpp"
#include "forms.hpp"

namespace sliding_log::tool {

namespace {

using namespace std::string_view_literals;

constexpr std::array kCommands = {"time"sv, "getrange"sv, "setrange"sv, "set"sv, "pexpire"sv, "del"sv, "pttl"sv};

constexpr unsigned char kFormat = 1;
constexpr unsigned char kBlockedFormat = 2;
constexpr std::size_t kStateBytes = 37;
constexpr std::size_t kBlockedBytes = 29;
constexpr std::size_t kHead = kStateBytes + 64;
constexpr std::size_t kMostBytes = 64'000'000;  // of a log that is read as a whole: about 30 million entries

/// Reads numbers of several bytes, highest byte first.
class Bytes {
  public:
    explicit Bytes(std::string_view bytes) : rest_(bytes) {}

    std::int64_t number(std::size_t length) {
        std::int64_t value = 0;
        for (std::size_t i = 0; i < length && i < rest_.size(); i++) {
            value = value << 8 | static_cast<unsigned char>(rest_[i]);
        }
        rest_.remove_prefix(std::min(length, rest_.size()));
        return value;
    }

  private:
    std::string_view rest_;
};

/// A blocked log has all its numbers in one piece, and no ring.
struct Head {
    std::int64_t blockedUntil;  // 0: not blocked
    std::int64_t oldest, newest, count, touched, size, begin, used, next, latest;
};

/// nullopt: not a log of this form.
std::optional<Head> readHead(std::string_view bytes) {
    const unsigned char format = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.front());
    const bool isBlocked = format == kBlockedFormat;
    if (bytes.size() < (isBlocked ? kBlockedBytes : kStateBytes) || !(isBlocked || format == kFormat)) {
        return std::nullopt;
    }
    Bytes in(bytes.substr(1));
    Head head{};
    if (isBlocked) {
        head.blockedUntil = in.number(6);
        in.number(6);  // the duration of the block
    }
    head.oldest = in.number(6);
    head.newest = in.number(6);
    head.count = in.number(4);
    if (isBlocked) {
        return head;
    }
    head.touched = in.number(6);
    head.size = in.number(4);
    head.begin = in.number(4);
    head.used = in.number(4);
    head.next = in.number(1);
    head.latest = in.number(1);
    return head;
}

/// The numbers between the entries, in their order: next, the contents of the ring, latest.
std::optional<std::string> distances(std::string_view log, const Head& head) {
    if (head.blockedUntil != 0) {
        return std::string(log.substr(kBlockedBytes));
    }
    const auto at = [](std::int64_t number) { return static_cast<std::size_t>(number); };
    const bool fits = kStateBytes + at(head.next) + at(head.latest) <= log.size() && head.used <= head.size &&
                      (head.used == 0 || (head.begin < head.size && kHead + at(head.size) <= log.size()));
    if (!fits) {
        return std::nullopt;
    }
    std::string bytes(log.substr(kStateBytes, at(head.next)));
    if (head.used > 0) {
        const std::string_view ring = log.substr(kHead, at(head.size));
        const std::string_view end = ring.substr(at(head.begin), at(head.used));
        bytes.append(end).append(ring.substr(0, at(head.used) - end.size()));
    }
    return bytes.append(log.substr(kStateBytes + at(head.next), at(head.latest)));
}

Command probe(const std::string& key) {
    return {"GETRANGE", key, "0", std::to_string(kStateBytes - 1)};
}

bool matches(ReplyView probed) {
    return readHead(probed.text()).has_value();
}

std::optional<std::int64_t> count(ReplyView probed) {
    const std::optional<Head> head = readHead(probed.text());
    return head ? std::optional(head->count) : std::nullopt;
}

State read(Store& store, const std::string& key, const ReadSettings& settings) {
    const Reply reply = store.ask(key, {"GETRANGE", key, "0", std::to_string(kMostBytes - 1)});
    const std::string_view log = checked(reply, "GETRANGE").text();
    const std::optional<Head> head = readHead(log);
    const std::optional<std::string> numbers = head ? distances(log, *head) : std::nullopt;
    if (!numbers) {
        throw CouldNotAsk("the key is a string, but not a log of algorithm=compact");
    }
    std::vector<std::int64_t> times;
    if (head->count > 0) {
        times.push_back(head->oldest);
    }
    std::int64_t number = 0;
    for (const char c : *numbers) {
        const auto byte = static_cast<unsigned char>(c);
        number = number << 7 | (byte & 0x7f);
        if (byte < 0x80 && !times.empty()) {
            times.push_back(times.back() + number);
            number = 0;
        }
    }
    if (static_cast<std::int64_t>(times.size()) != head->count) {
        throw CouldNotAsk("the log counts " + std::to_string(head->count) + " entries, but has " +
                          std::to_string(times.size()));
    }
    const bool isGuess = !settings.windowMs && head->blockedUntil == 0;  // a block also prolongs the key's life
    State state = stateOf(times, settings, isGuess ? guessWindow(settings, head->touched) : settings.windowMs);
    state.blockedMs = std::max<std::int64_t>(head->blockedUntil - settings.nowMs, 0);
    return state;
}

}  // namespace

const Form kCompactForm = {Algorithm::Compact, kCommands, {}, probe, matches, count, read};

}  // namespace sliding_log::tool
