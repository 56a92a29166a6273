#include "unload.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "redis.hpp"

namespace sliding_log::native {

namespace {

constexpr long long kWithdrawnMs = 10'000;
// versions, as versionOf() tells them
constexpr long long kFirstThatRecomputes = 702;
constexpr long long kFirstThatRemembers = 800;
constexpr int kIdleSeconds = 1;

long long withdrawnUntil = 0;  // ms

/// The whole number behind NAME in a text of fields; 0 if there is none.
long long numberBehind(std::string_view fields, std::string_view name) {
    const std::size_t found = fields.find(name);
    long long number = 0;
    if (found != std::string_view::npos) {
        const std::string_view rest = fields.substr(found + name.size());
        std::from_chars(rest.data(), rest.data() + rest.size(), number);
    }
    return number;
}

/// The reply to a command that replies with a text.
std::string answer(RedisModuleCtx* context, const char* command, const char* argument) {
    const Reply reply(api::Call(context, command, "c", argument));
    std::string_view text;
    return reply.text(text) ? std::string(text) : std::string();
}

/// The version in redis_version of INFO, as 702 for 7.2. Valkey writes there the Redis that it is compatible with.
long long versionOf(RedisModuleCtx* context) {
    constexpr std::string_view kName = "redis_version:";
    const std::string info = answer(context, "INFO", "server");
    const std::string_view version = std::string_view(info).substr(std::min(info.find(kName), info.size()));
    return 100 * numberBehind(version, kName) +
           numberBehind(version.substr(std::min(version.find('.'), version.size())), ".");
}

/// The lines of CLIENT LIST of connections that would call the command again.
std::vector<std::string> callers(RedisModuleCtx* context) {
    const std::string list = answer(context, "CLIENT", "LIST");
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t end = std::min(list.find('\n', begin), list.size());
        const std::string_view line = std::string_view(list).substr(begin, end - begin);
        if (line.find(" cmd=sliding_log.") != std::string_view::npos) {
            lines.emplace_back(line);
        }
        begin = end + 1;
    }
    return lines;
}

/// A user whose rules name the command, or the one of an older module, as "user NAME"; empty if there is none.
std::string userWithRule(RedisModuleCtx* context) {
    const Reply users(api::Call(context, "ACL", "c", "LIST"));
    for (std::size_t i = 0; users.isArray() && i < users.size(); i++) {
        const std::string_view rules = users.at(i);
        if (rules.find("sliding_log.") != std::string_view::npos) {
            constexpr std::size_t kName = sizeof("user ") - 1;
            return std::string(rules.substr(0, rules.find(' ', kName)));
        }
    }
    return {};
}

/// Closes the connection if it is idle; true if it is closed now.
bool closeIdle(RedisModuleCtx* context, const std::string& line) {
    if (numberBehind(line, " idle=") < kIdleSeconds) {
        return false;
    }
    const std::string id = textOf(static_cast<double>(numberBehind(line, "id=")));
    const Reply reply(api::Call(context, "CLIENT", "ccc", "KILL", "ID", id.c_str()));
    return reply.isInteger() && reply.integer() == 1;
}

}  // namespace

bool isWithdrawn() {
    return withdrawnUntil != 0 && api::Milliseconds() < withdrawnUntil;
}

void clearWithdrawn() {
    withdrawnUntil = 0;
}

bool mayUnload(RedisModuleCtx* context) {
    const long long version = versionOf(context);
    if (version < kFirstThatRecomputes) {
        return true;
    }
    if (const std::string user = userWithRule(context); !user.empty()) {
        api::Log(context, "warning",
                 "not unloaded: the ACL rules of %s name a command of it, and this server would stop with a failed "
                 "assertion; give the user rules without it, behind \"nocommands\"",
                 user.c_str());
        return false;
    }
    if (version < kFirstThatRemembers) {
        return true;
    }
    const bool wasWithdrawn = isWithdrawn();
    int left = 0;
    for (const std::string& line : callers(context)) {
        left += wasWithdrawn && closeIdle(context, line) ? 0 : 1;
    }
    if (left == 0) {
        return true;
    }
    withdrawnUntil = api::Milliseconds() + kWithdrawnMs;
    api::Log(context, "warning",
             "not unloaded: the last command of %d connections was one of it, and this server would call it again; "
             "it answers as an unknown command for ten seconds, unload the module again within them",
             left);
    return false;
}

}  // namespace sliding_log::native
