#include "share.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace sliding_log::tool {

std::optional<Share> shareOf(Server& server, std::string_view prefix, std::int64_t keys) {
    constexpr std::size_t kMostSeen = 1000;
    constexpr int kMostScans = 40;  // SCAN may return nothing, as from a database that shrank
    std::set<std::string> seen;     // SCAN may return a key twice
    std::string cursor = "0";
    int scans = 0;
    do {
        const Reply reply = server.ask({"SCAN", cursor, "COUNT", "250"});
        if (reply.isError()) {
            return std::nullopt;
        }
        cursor = reply[0].text();
        for (std::size_t i = 0; i < reply[1].size(); i++) {
            seen.emplace(reply[1][i].text());
        }
        scans++;
    } while (seen.size() < kMostSeen && scans < kMostScans && cursor != "0" && !cursor.empty());

    std::vector<Command> commands;
    for (const std::string& key : seen) {
        if (key.starts_with(prefix)) {
            commands.push_back({"MEMORY", "USAGE", key});
        }
    }
    Share share;
    share.seen = static_cast<std::int64_t>(seen.size());
    share.isWhole = cursor == "0";
    for (const Reply& reply : server.ask(commands)) {
        if (reply.isError()) {
            return std::nullopt;
        }
        share.bytes += reply.numberOr(0);  // 0: it has expired in the meantime
    }
    if (!share.isWhole && share.seen > 0 && keys > share.seen) {
        const double times = static_cast<double>(keys) / static_cast<double>(share.seen);
        share.bytes = static_cast<std::int64_t>(static_cast<double>(share.bytes) * times);
    }
    return share;
}

}  // namespace sliding_log::tool
