// Commands of a server: what it is, its settings and its cluster.
#include <algorithm>

#include "commands.hpp"
#include "redis/hash_slots.hpp"
#include "routing.hpp"
#include "state.hpp"

namespace simulate {

namespace {

void time(Execution& execution, Words) {
    constexpr std::int64_t kUs = 1'000'000;
    appendArray(execution.reply(), 2);
    appendBulk(execution.reply(), std::to_string(execution.nowUs() / kUs));
    appendBulk(execution.reply(), std::to_string(execution.nowUs() % kUs));
}

void role(Execution& execution, Words) {
    const ServerState& state = execution.state();
    std::string& reply = execution.reply();
    const auto offset = static_cast<std::int64_t>(state.offset);
    if (state.role == Role::Master) {
        appendArray(reply, 3);
        appendBulk(reply, "master");
        appendInteger(reply, offset);
        appendArray(reply, 0);
        return;
    }
    appendArray(reply, 5);
    appendBulk(reply, "slave");
    appendBulk(reply, state.masterHost);
    appendInteger(reply, state.masterPort);
    appendBulk(reply, state.isMasterDown ? "connect" : "connected");
    appendInteger(reply, offset);
}

std::string_view nameOf(Eviction policy) {
    switch (policy) {
        case Eviction::None:
            return "noeviction";
        case Eviction::AllKeysLru:
            return "allkeys-lru";
        case Eviction::VolatileLru:
            return "volatile-lru";
        case Eviction::VolatileTtl:
            return "volatile-ttl";
    }
    return {};
}

/// Its sections are those that nginx and the tool read.
void info(Execution& execution, Words words) {
    const ServerState& state = execution.state();
    const auto isAsked = [&](std::string_view section) {
        return words.size() == 1 || std::ranges::any_of(words.subspan(1), [&](std::string_view word) {
                   return isWord(word, section) || isWord(word, "ALL") || isWord(word, "DEFAULT") ||
                          isWord(word, "EVERYTHING");
               });
    };
    std::string text;
    const auto add = [&](std::string_view name, std::string_view value) {
        text.append(name).append(":").append(value).append("\r\n");
    };
    if (isAsked("SERVER")) {
        text.append("# Server\r\n");
        add("redis_version", "7.0.15");
        add("redis_mode", state.cluster ? "cluster" : "standalone");
        add("tcp_port", std::to_string(state.settings.port));
    }
    if (isAsked("MEMORY")) {
        text.append("# Memory\r\n");
        add("used_memory", std::to_string(state.usedMemory()));
        add("maxmemory", std::to_string(state.maxmemory));
        add("maxmemory_policy", nameOf(state.policy));
    }
    if (isAsked("PERSISTENCE")) {
        text.append("# Persistence\r\n");
        add("loading", state.isLoading ? "1" : "0");
    }
    if (isAsked("STATS")) {
        text.append("# Stats\r\n");
        add("total_commands_processed", std::to_string(state.commands));
        add("evicted_keys", std::to_string(state.evicted));
    }
    if (isAsked("REPLICATION")) {
        text.append("# Replication\r\n");
        add("role", state.role == Role::Master ? "master" : "slave");
        add(state.role == Role::Master ? "master_repl_offset" : "slave_repl_offset", std::to_string(state.offset));
    }
    if (isAsked("CLUSTER")) {
        text.append("# Cluster\r\n");
        add("cluster_enabled", state.cluster ? "1" : "0");
    }
    appendBulk(execution.reply(), text);
}

void configGet(Execution& execution, Words names) {
    const ServerState& state = execution.state();
    std::vector<std::pair<std::string, std::string>> found;
    for (const std::string_view name : names) {
        if (isWord(name, "MAXMEMORY-POLICY")) {
            found.emplace_back("maxmemory-policy", nameOf(state.policy));
        } else if (isWord(name, "MAXMEMORY")) {
            found.emplace_back("maxmemory", std::to_string(state.maxmemory));
        }
    }
    appendArray(execution.reply(), 2 * found.size());
    for (const auto& [name, value] : found) {
        appendBulk(execution.reply(), name);
        appendBulk(execution.reply(), value);
    }
}

void configSet(Execution& execution, std::string_view name, std::string_view value) {
    ServerState& state = execution.state();
    if (isWord(name, "MAXMEMORY")) {
        std::int64_t bytes = 0;
        if (!integerIn(value, bytes) || bytes < 0) {
            return execution.error("ERR CONFIG SET failed - argument must be a memory value");
        }
        state.maxmemory = static_cast<std::uint64_t>(bytes);
        return appendStatus(execution.reply(), "OK");
    }
    if (isWord(name, "MAXMEMORY-POLICY")) {
        for (const Eviction policy :
             {Eviction::None, Eviction::AllKeysLru, Eviction::VolatileLru, Eviction::VolatileTtl}) {
            if (lowerCase(value) == nameOf(policy)) {
                state.policy = policy;
                return appendStatus(execution.reply(), "OK");
            }
        }
    }
    execution.error("ERR CONFIG SET of this parameter is not simulated");
}

void config(Execution& execution, Words words) {
    if (isWord(words[1], "GET") && words.size() > 2) {
        configGet(execution, words.subspan(2));
    } else if (isWord(words[1], "SET") && words.size() == 4) {
        configSet(execution, words[2], words[3]);
    } else {
        execution.error(kSyntax);
    }
}

std::string clusterInfo(const ClusterView& cluster) {
    const auto served = std::ranges::count_if(cluster.owner, [](int owner) { return owner != ClusterView::kNobody; });
    const auto masters = std::ranges::count(cluster.nodes, ClusterView::kNobody, &ClusterView::Node::master);
    const bool isDown = cluster.isDown || served < static_cast<std::ptrdiff_t>(ClusterView::kSlots);
    return std::string("cluster_enabled:1\r\ncluster_state:")
        .append(isDown ? "fail" : "ok")
        .append("\r\ncluster_slots_assigned:")
        .append(std::to_string(served))
        .append("\r\ncluster_known_nodes:")
        .append(std::to_string(cluster.nodes.size()))
        .append("\r\ncluster_size:")
        .append(std::to_string(masters))
        .append("\r\n");
}

void cluster(Execution& execution, Words words) {
    constexpr std::int64_t kRangeNs = 1'000;
    const ServerState& state = execution.state();
    if (!state.cluster) {
        return execution.error("ERR This instance has cluster support disabled");
    }
    if (isWord(words[1], "SLOTS")) {
        const std::size_t before = execution.reply().size();
        tellSlots(execution.reply(), *state.cluster);
        constexpr std::size_t kRangeBytes = 100;
        execution.works(kRangeNs * static_cast<std::int64_t>((execution.reply().size() - before) / kRangeBytes));
    } else if (isWord(words[1], "NODES")) {
        appendBulk(execution.reply(), nodesText(*state.cluster));
    } else if (isWord(words[1], "INFO")) {
        appendBulk(execution.reply(), clusterInfo(*state.cluster));
    } else if (isWord(words[1], "MYID")) {
        appendBulk(execution.reply(), state.cluster->nodes[static_cast<std::size_t>(state.cluster->self)].id);
    } else if (isWord(words[1], "KEYSLOT") && words.size() == 3) {
        appendInteger(execution.reply(), sliding_log::hashSlotOf(words[2]));
    } else {
        execution.error("ERR unknown subcommand '" + std::string(words[1]) + "'. Try CLUSTER HELP.");
    }
}

constexpr CommandRow kServerCommands[] = {
    {"cluster", cluster, -2, kWhileStale, 0, 0},
    {"config", config, -2, kAlways | kNotInScripts, 0, 0},
    {"info", info, -1, kAlways, 0, 0},
    {"role", role, 1, kAlways | kNotInScripts, 0, 0},
    {"time", time, 1, kAlways, 0, 0},
};

}  // namespace

std::span<const CommandRow> serverCommands() {
    return kServerCommands;
}

}  // namespace simulate
