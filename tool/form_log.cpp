// algorithm=log: a ZSET, a member for each request, its score the time.
#include <array>

#include "failure.hpp"
#include "forms.hpp"

namespace sliding_log::tool {

namespace {

using namespace std::string_view_literals;

constexpr std::array kCommands = {"time"sv,         "zrange"sv,           "zcard"sv,           "zadd"sv,
                                  "pexpire"sv,      "zremrangebyscore"sv, "zremrangebyrank"sv, "zrem"sv,
                                  "zrangebyscore"sv};

Command countCommand(const std::string& key) {
    return {"ZCARD", key};
}

std::int64_t countIn(ReplyView reply) {
    return reply.numberOr(0);
}

State read(Store& store, const std::string& key, const Asked& asked) {
    State state;
    const std::array<Command, 5> ends = {{{"MULTI"},
                                          {"ZCARD", key},
                                          {"ZRANGE", key, "0", "0", "WITHSCORES"},
                                          {"ZRANGE", key, "-1", "-1", "WITHSCORES"},
                                          {"EXEC"}}};
    const std::vector<Reply> first = store.ask(key, ends);
    const ReplyView found = checked(first.back(), "EXEC");
    state.entries = checked(found[0], "ZCARD").numberOr(0);
    state.oldestMs = found[1][1].number();
    state.newestMs = found[2][1].number();
    state.windowMs = asked.windowMs ? asked.windowMs : guessWindow(asked, state.newestMs.value_or(asked.nowMs));
    if (!state.windowMs) {
        return state;
    }

    const std::int64_t horizon = asked.nowMs - *state.windowMs;
    const std::int64_t limit = asked.limit.value_or(0);
    // the entry whose leaving makes room for one, when it is in the window still
    const std::string rank = std::to_string(-std::max<std::int64_t>(limit, 1));
    const std::array<Command, 4> room = {{{"MULTI"},
                                          {"ZCOUNT", key, "(" + std::to_string(horizon), "+inf"},
                                          {"ZRANGE", key, rank, rank, "WITHSCORES"},
                                          {"EXEC"}}};
    const std::vector<Reply> second = store.ask(key, room);
    const ReplyView counted = checked(second.back(), "EXEC");
    state.used = checked(counted[0], "ZCOUNT").numberOr(0);
    if (asked.limit) {
        state.remaining = std::max<std::int64_t>(limit - *state.used, 0);
        const std::int64_t leaves = counted[1][1].numberOr(horizon) - horizon;
        state.retryMs = limit == 0 ? -1 : *state.used < limit ? 0 : std::max<std::int64_t>(leaves, 0);
    }
    return state;
}

}  // namespace

const Form kLogForm = {Algorithm::Log, "log", "zset", kCommands, countCommand, countIn, read};

}  // namespace sliding_log::tool
