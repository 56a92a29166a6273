// algorithm=log, sampled and inflight: a ZSET with a member for each entry; the score is the time. A member with a
// score below 0 is not an entry: it says until when the log is blocked.
#include <algorithm>
#include <array>

#include "failure.hpp"
#include "forms.hpp"

namespace sliding_log::tool {

namespace {

using namespace std::string_view_literals;

constexpr std::array kLogCommands = {"time"sv,         "zrange"sv,           "zcard"sv,           "zadd"sv,
                                     "pexpire"sv,      "zremrangebyscore"sv, "zremrangebyrank"sv, "zrem"sv,
                                     "zrangebyscore"sv};
constexpr std::array kLogBlockCommands = {"zscore"sv, "pttl"sv};

Command probeLog(const std::string& key) {
    return {"ZCOUNT", key, "0", "+inf"};
}

bool isLog(ReplyView probed) {
    return !probed.isError();
}

std::optional<std::int64_t> countOfLog(ReplyView probed) {
    return probed.number();
}

State readLog(Store& store, const std::string& key, const ReadSettings& settings) {
    State state;
    const std::array<Command, 6> ends = {{{"MULTI"},
                                          probeLog(key),
                                          {"ZRANGE", key, "0", "0", "WITHSCORES"},
                                          {"ZRANGE", key, "1", "1", "WITHSCORES"},
                                          {"ZRANGE", key, "-1", "-1", "WITHSCORES"},
                                          {"EXEC"}}};
    const std::vector<Reply> first = store.ask(key, ends);
    const ReplyView found = checked(first.back(), "EXEC");
    state.entries = checked(found[0], "ZCOUNT").numberOr(0);
    const std::int64_t lowest = found[1][1].numberOr(0);
    state.blockedMs = lowest < 0 ? std::max<std::int64_t>(-lowest - settings.nowMs, 0) : 0;
    if (*state.entries > 0) {
        state.oldestMs = lowest < 0 ? found[2][1].number() : lowest;
        state.newestMs = found[3][1].number();
    }
    state.windowMs = settings.windowMs || state.blockedMs > 0
                         ? settings.windowMs  // a block also prolongs the key's life
                         : guessWindow(settings, state.newestMs.value_or(settings.nowMs));
    if (!state.windowMs) {
        return state;
    }

    const std::int64_t horizon = settings.nowMs - *state.windowMs;
    const std::int64_t limit = settings.limit.value_or(0);
    // the entry that has to leave before there is room for one more, if it is in the window
    const std::string rank = std::to_string(-std::max<std::int64_t>((limit - 1) / settings.sample + 1, 1));
    const std::array<Command, 4> room = {
        {{"MULTI"},
         {"ZCOUNT", key, "(" + std::to_string(std::max<std::int64_t>(horizon, 0)), "+inf"},
         {"ZRANGE", key, rank, rank, "WITHSCORES"},
         {"EXEC"}}};
    const std::vector<Reply> second = store.ask(key, room);
    const ReplyView counted = checked(second.back(), "EXEC");
    state.used = checked(counted[0], "ZCOUNT").numberOr(0) * settings.sample;
    if (settings.limit) {
        state.remaining = std::max<std::int64_t>(limit - *state.used, 0);
        const std::int64_t leaves = counted[1][1].numberOr(horizon) - horizon;
        state.retryMs = limit == 0 ? -1 : *state.used < limit ? 0 : std::max<std::int64_t>(leaves, 0);
    }
    return state;
}

}  // namespace

const Form kLogForm = {Algorithm::Log, kLogCommands, kLogBlockCommands, probeLog, isLog, countOfLog, readLog};

// The data of these are like those of `log`, so they are found by their names only.
const Form kSampledForm = {Algorithm::Sampled, kLogCommands, kLogBlockCommands, probeLog, isLog, countOfLog, readLog};
const Form kInflightForm = {Algorithm::Inflight, kLogCommands, {}, probeLog, isLog, countOfLog, readLog};

}  // namespace sliding_log::tool
