// doctor: checks whether this Redis suits the limits. For people and, by its exit status, for monitoring.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <optional>

#include "certificate.hpp"
#include "command.hpp"
#include "compare.hpp"
#include "findings.hpp"
#include "interrupt.hpp"
#include "limit/number.hpp"
#include "membership.hpp"
#include "redis/native_command.hpp"
#include "rights.hpp"
#include "share.hpp"
#include "table.hpp"
#include "text.hpp"
#include "upgrade.hpp"
#include "use.hpp"

namespace sliding_log::tool {

namespace {

constexpr Option kCompareOption{"--compare", "FILE",
                                "nginx's configuration of another node: what differs from --nginx-conf"};

constexpr std::array kDoctorOptions = {
    kAlgorithmsOption,
    kOverrideOption,
    kCheckUserOption,
    kCompareOption,
};

constexpr int kPings = 20;
constexpr int kBetweenPingsMs = 10;

std::string percent(std::int64_t part, std::int64_t whole) {
    return std::to_string(part * 100 / whole) + " %";
}

void inspectVersion(Findings& findings, std::string_view info) {
    const std::string_view valkey = infoField(info, "valkey_version");
    const std::string_view redis = infoField(info, "redis_version");
    const std::string text = valkey.empty() ? "Redis " + printable(redis) : "Valkey " + printable(valkey);
    if (infoNumber(info, "redis_version") < 7) {
        findings.add("version", Status::Critical, text + ", 7.0 or later is required");
    } else {
        findings.add("version", Status::Ok, text);
    }
}

/// What limits have that must outlive a restart of Redis, as far as is known; empty: nothing.
std::string_view lastingState(const Use& use) {
    const bool hasQuotas = use.areFormsKnown && std::ranges::any_of(use.forms, [](const Form* form) {
                               return traitsOf(form->algorithm).countsPeriods;
                           });
    const bool escalates = use.escalates.value_or(false);
    return hasQuotas && escalates ? "the requests of quotas, and blocks"
           : hasQuotas            ? "the requests of quotas"
           : escalates            ? "blocks (block= with several times)"
                                  : "";
}

void inspectMemory(Findings& findings, std::string_view info, std::string_view lasting) {
    const std::int64_t used = infoNumber(info, "used_memory");
    const std::int64_t most = infoNumber(info, "maxmemory");
    const std::string usedText = byteSize(static_cast<double>(used));
    if (most == 0) {
        findings.add("memory", Status::Warning,
                     usedText + " used, and maxmemory is not set: Redis may use all memory of the system");
    } else {
        const Status status = used * 10 >= most * 9  ? Status::Critical
                              : used * 4 >= most * 3 ? Status::Warning
                                                     : Status::Ok;
        findings.add("memory", status,
                     usedText + " of " + byteSize(static_cast<double>(most)) + " used, " + percent(used, most));
    }

    const std::string policy(infoField(info, "maxmemory_policy"));
    if (policy.starts_with("allkeys-")) {
        findings.add("policy", Status::Warning,
                     policy + " can evict logs in use, whose requests no longer count; use noeviction or volatile-ttl");
    } else if (policy.starts_with("volatile-") && policy != "volatile-ttl") {
        findings.add("policy", Status::Warning,
                     policy + " can evict logs in use before logs that expire soon; use volatile-ttl");
    } else if (!lasting.empty() && policy != "noeviction") {
        findings.add("policy", Status::Warning,
                     printable(policy) + " can evict " + std::string(lasting) + "; use noeviction");
    } else {
        findings.add("policy", Status::Ok, printable(policy));
    }
}

/// How often FLUSHALL and FLUSHDB were called since the server was started. 0 if the user may not ask.
std::int64_t flushesOf(Server& server) {
    const Reply stats = server.ask({"INFO", "commandstats"});
    std::int64_t flushes = 0;
    for (const std::string_view command : {"cmdstat_flushall", "cmdstat_flushdb"}) {
        const std::string_view field = stats.isError() ? std::string_view() : infoField(stats.text(), command);
        constexpr std::string_view calls = "calls=";
        if (field.starts_with(calls)) {
            flushes += parseCount(field.substr(calls.size(), field.find(',') - calls.size())).value_or(0);
        }
    }
    return flushes;
}

/// A Redis that was started or flushed lately has forgotten what it did not store.
void inspectUptime(Findings& findings, Server& server, std::string_view info) {
    std::string text = "started " + duration(infoNumber(info, "uptime_in_seconds") * 1000) + " ago";
    const std::int64_t loaded = infoNumber(info, "rdb_last_load_keys_loaded");
    text += loaded == 0 ? "" : " with " + counted(loaded, "stored key", "stored keys");
    const std::int64_t flushes = flushesOf(server);
    text += flushes == 0 ? "" : ", flushed " + counted(flushes, "time", "times") + " since then";
    findings.add("uptime", Status::Ok, text);
}

/// Of the database, by INFO, since DBSIZE would take one more permission.
std::int64_t keysOf(std::string_view info, int database) {
    const std::string_view field = infoField(info, "db" + std::to_string(database));
    constexpr std::string_view keys = "keys=";
    return field.starts_with(keys) ? parseCount(field.substr(keys.size(), field.find(',') - keys.size())).value_or(0)
                                   : 0;
}

/// What a full Redis can get back by smaller limits.
void inspectShare(Findings& findings, Server& server, const Context& context, std::string_view info) {
    const std::int64_t used = infoNumber(info, "used_memory");
    const std::int64_t keys = keysOf(info, context.settings.login.database);
    const std::optional<Share> share = shareOf(server, context.prefix, keys);
    if (!share || used <= 0) {
        findings.add("share", Status::Ok, "not known: this user lacks +scan or +memory|usage");
        return;
    }
    findings.add("share", Status::Ok,
                 "keys with the prefix take " + std::string(share->isWhole ? "" : "about ") +
                     byteSize(static_cast<double>(share->bytes)) + ", " + percent(std::min(share->bytes, used), used) +
                     " of what is used, by " +
                     (share->isWhole ? counted(share->seen, "key", "keys")
                                     : grouped(share->seen) + " of " + counted(keys, "key", "keys")));
}

void inspectEvictions(Findings& findings, std::string_view before, std::string_view after) {
    const std::int64_t evicted = infoNumber(after, "evicted_keys");
    const std::int64_t now = evicted - infoNumber(before, "evicted_keys");
    if (now > 0) {
        findings.add("evictions", Status::Critical,
                     grouped(now) + " keys during this check: their requests no longer count");
    } else if (evicted > 0) {
        findings.add("evictions", Status::Warning,
                     grouped(evicted) + " keys since the server was started, none during this check");
    } else {
        findings.add("evictions", Status::Ok, "none");
    }
}

void inspectClients(Findings& findings, std::string_view info) {
    const std::int64_t connected = infoNumber(info, "connected_clients");
    const std::int64_t most = infoNumber(info, "maxclients");
    if (most > 0) {
        findings.add("clients", connected * 10 >= most * 9 ? Status::Warning : Status::Ok,
                     grouped(connected) + " of " + grouped(most) + " connections");
    }
}

void inspectPersistence(Findings& findings, std::string_view info, std::string_view lasting) {
    if (infoNumber(info, "loading") != 0) {
        findings.add("persistence", Status::Critical, "the server is loading its data and executes no calls");
    } else if (infoField(info, "aof_last_write_status") == "err") {
        findings.add("persistence", Status::Critical, "the AOF cannot be written: Redis refuses writes (MISCONF)");
    } else if (infoField(info, "rdb_last_bgsave_status") == "err") {
        findings.add(
            "persistence", Status::Critical,
            "the last BGSAVE failed: Redis refuses writes (MISCONF), unless stop-writes-on-bgsave-error is no");
    } else if (!lasting.empty() && infoNumber(info, "aof_enabled") == 0) {
        findings.add(
            "persistence", Status::Warning,
            "no AOF: a restart forgets " + std::string(lasting) + " since the last snapshot; use appendonly yes");
    } else {
        findings.add("persistence", Status::Ok, infoNumber(info, "aof_enabled") != 0 ? "AOF" : "no AOF");
    }
}

void inspectReplication(Findings& findings, std::string_view info, Mode mode) {
    if (infoField(info, "role") != "master") {
        findings.add("replication", Status::Critical, "the server is a replica and refuses writes");
        return;
    }
    const std::int64_t replicas = infoNumber(info, "connected_slaves");
    std::int64_t behind = 0;
    for (std::int64_t i = 0; i < replicas; i++) {
        behind += infoField(info, "slave" + std::to_string(i)).find("state=online") == std::string_view::npos ? 1 : 0;
    }
    const std::string text = grouped(replicas) + (replicas == 1 ? " replica" : " replicas");
    if (behind > 0) {
        findings.add("replication", Status::Warning, text + ", " + grouped(behind) + " not in sync");
    } else if (replicas == 0 && mode != Mode::Standalone) {
        findings.add("replication", Status::Warning, "no replica: a fail-over is not possible");
    } else {
        findings.add("replication", Status::Ok, replicas == 0 ? "no replica: logs are lost with the server" : text);
    }
}

void inspectCluster(Findings& findings, Server& server, std::string_view info, Mode mode) {
    const bool isNode = infoNumber(info, "cluster_enabled") != 0;
    if (mode != Mode::Cluster) {
        if (isNode) {
            findings.add("cluster", Status::Critical,
                         "the server is a node of a cluster: \"mode cluster\" is required");
        }
        return;
    }
    const Reply reply = server.ask({"CLUSTER", "INFO"});
    if (reply.isError()) {
        findings.hidden("cluster", reply);
        return;
    }
    const std::string_view state = infoField(reply.text(), "cluster_state");
    const std::int64_t served = infoNumber(reply.text(), "cluster_slots_ok");
    const std::int64_t doubted = infoNumber(reply.text(), "cluster_slots_pfail");
    const std::string text = grouped(served) + " of 16,384 slots served";
    if (state != "ok" || served + doubted < 16384) {
        findings.add("cluster", Status::Critical, "state " + printable(state) + ", " + text);
    } else if (doubted > 0) {
        findings.add("cluster", Status::Warning, text + ", " + grouped(doubted) + " by nodes that do not reply");
    } else {
        findings.add("cluster", Status::Ok, text);
    }
}

/// Compares with the module's default `timeout`, 100 ms.
void inspectLatency(Findings& findings, Server& server) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> times;
    for (int i = 0; i < kPings; i++) {
        const Clock::time_point begin = Clock::now();
        const Reply reply = server.ask({"PING"});
        times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
        if (reply.isError()) {
            findings.hidden("latency", reply);
            return;
        }
        pauseFor(kBetweenPingsMs);
    }
    std::ranges::sort(times);
    const double middle = times[times.size() / 2];
    const Status status = middle >= 50 ? Status::Critical : times.back() >= 50 ? Status::Warning : Status::Ok;
    findings.add("latency", status,
                 decimal(middle, 2) + " ms, at most " + decimal(times.back(), 2) + " ms, of " + std::to_string(kPings) +
                     " PINGs");
}

void inspectClock(Findings& findings, Server& server) {
    using Clock = std::chrono::system_clock;
    const auto ours = [] {
        return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
    };
    const std::int64_t before = ours();
    const Reply reply = server.ask({"TIME"});
    const std::int64_t after = ours();
    if (reply.isError()) {
        findings.hidden("clock", reply);
        return;
    }
    const std::int64_t theirs = timeIn(reply);
    const std::int64_t ahead = theirs > after ? theirs - after : theirs < before ? theirs - before : 0;
    const std::string text =
        ahead == 0 ? "same as the local clock"
                   : duration(std::abs(ahead)) + (ahead > 0 ? " ahead of" : " behind") + " the local clock";
    const bool differs = std::abs(ahead) >= 1000;
    findings.add("clock", differs ? Status::Warning : Status::Ok,
                 text + (differs ? ": a fail-over to another clock shifts the windows" : ""));
}

/// When a certificate has ended, new connections fail.
void inspectCertificates(Findings& findings, const Server& server) {
    const auto tell = [&](std::string_view whose, std::optional<std::int64_t> leftMs) {
        if (leftMs) {
            CertificateFinding found = certificateFinding(*leftMs);
            findings.add("certificate", found.status, std::string(whose) + found.text);
        }
    };
    tell("that of the server", server.certificateLeftMs(Server::Whose::Peer));
    tell("the client certificate of this tool", server.certificateLeftMs(Server::Whose::Own));
}

/// Whether the native module decides, or the scripts do.
void inspectNative(Findings& findings, Server& server, const Context& context) {
    const bool isRequired = requiresNative(context);
    const std::string other = context.arguments.text(kCheckUserOption.name);
    const Command command = {std::string(kNativeCommand), "log", "0", "0"};
    const Reply reply = server.ask(command);
    const bool isForbidden = isNativeForbidden(reply.text());
    const bool isLoaded = reply.isArray() || isRefusedForNow(reply.text()) || isForbidden;
    bool isPermitted = !isForbidden;
    try {
        isPermitted = other.empty() || !isLoaded ? isPermitted : mayRun(server, other, command);
    } catch (const CouldNotAsk& failure) {
        findings.add("native", Status::Warning, "the native module is loaded; " + std::string(failure.what()));
        return;
    }
    if (isLoaded && !isPermitted) {
        findings.add("native", isRequired ? Status::Critical : Status::Warning,
                     "the native module is loaded, and not permitted: " + std::string("+").append(kNativeCommand));
    } else if (isLoaded) {
        findings.add("native", Status::Ok, "the native module decides");
    } else if (!isNativeMissing(reply.text())) {
        findings.hidden("native", reply);
    } else {
        findings.add("native", isRequired ? Status::Critical : Status::Ok,
                     isRequired ? "no native module, which \"native required\" asks for"
                                : "no native module: the scripts decide");
    }
}

void inspectServer(Findings& findings, Server& server, const Context& context, const Use& use) {
    const Mode mode = context.settings.mode;
    const Reply before = server.ask({"INFO"});
    inspectLatency(findings, server);
    inspectClock(findings, server);
    const Reply after = server.ask({"INFO"});
    if (after.isError() || before.isError()) {
        findings.hidden("server", after);
    } else {
        const std::string_view info = after.text();
        inspectVersion(findings, info);
        inspectUptime(findings, server, info);
        inspectMemory(findings, info, lastingState(use));
        inspectShare(findings, server, context, info);
        inspectEvictions(findings, before.text(), info);
        inspectClients(findings, info);
        inspectPersistence(findings, info, lastingState(use));
        inspectReplication(findings, info, mode);
        inspectCluster(findings, server, info, mode);
    }
    inspectCertificates(findings, server);
    inspectRights(findings, server, context, use);
    inspectScripts(findings, server, context.prefix, use.forms);
    inspectNative(findings, server, context);
}

/// Whether the Sentinels can replace the master, and agree on it.
void inspectSentinels(Findings& findings, const Context& context, const Endpoint& master) {
    for (const Endpoint& each : context.settings.servers) {
        findings.of(nameOf(each));
        try {
            Server sentinel(each, context.settings.sentinelLogin);
            inspectCertificates(findings, sentinel);
            const Reply where = sentinel.ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", context.settings.master});
            const Reply quorum = sentinel.ask({"SENTINEL", "CKQUORUM", context.settings.master});
            if (where[0].text() != master.host || where[1].numberOr(0) != master.port) {
                findings.add("sentinel", Status::Warning, "the Sentinel names another master or none");
            } else if (quorum.errorWord() == "NOPERM") {
                findings.hidden("sentinel", quorum);
            } else {
                findings.add("sentinel", quorum.isError() ? Status::Critical : Status::Ok, printable(quorum.text()));
            }
        } catch (const CouldNotAsk& failure) {
            findings.add("sentinel", Status::Warning, failure.what());
        }
    }
}

void inspectMasters(Findings& findings, Store& store, const Context& context, const Use& use) {
    for (const Endpoint& master : store.masters()) {
        findings.of(nameOf(master));
        try {
            inspectServer(findings, store.at(master), context, use);
        } catch (const CouldNotAsk& failure) {
            if (store.masters().size() == 1) {
                throw;
            }
            findings.add("answers", Status::Critical, failure.what());
        }
    }
}

/// Throws CouldNotAsk if no server replies.
void inspectStore(Findings& findings, const Context& context, const Use& use) {
    std::optional<Store> store;
    try {
        store.emplace(context.settings);
    } catch (const CouldNotAsk&) {  // servers that know no cluster may still reply
        if (context.settings.mode != Mode::Cluster || !inspectMembership(findings, context.settings, {})) {
            throw;
        }
        return;
    }
    inspectMasters(findings, *store, context, use);
    if (context.settings.mode == Mode::Sentinel) {
        inspectSentinels(findings, context, store->masters().front());
    } else if (context.settings.mode == Mode::Cluster) {
        inspectMembership(findings, context.settings, store->masters());
    }
}

/// The configuration of --compare. Throws UsageError.
std::optional<NginxSettings> comparedWith(const Context& context) {
    if (!context.arguments.has(kCompareOption.name)) {
        return std::nullopt;
    }
    if (context.nginx == nullptr) {
        throw UsageError("\"" + std::string(kCompareOption.name) + "\" needs \"--nginx-conf\"");
    }
    const std::string file = context.arguments.text(kCompareOption.name);
    if (!std::filesystem::is_regular_file(file)) {
        refuseValue(kCompareOption.name, file, "a readable file");
    }
    return NginxSettings(file);
}

Status runDoctor(const Context& context) {
    if (!context.arguments.words().empty()) {
        throw UsageError("doctor takes no operand: \"" + printable(context.arguments.words().front()) + "\"");
    }
    const Use use = useOf(context);
    const std::optional<NginxSettings> other = comparedWith(context);
    Findings findings;
    inspectStore(findings, context, use);
    if (other) {
        compareNginx(findings, *context.nginx, *other);
    }
    inspectUpgrade(findings);
    print(context.json ? findings.json() : findings.human());
    return findings.worst();
}

}  // namespace

const ToolCommand kDoctor = {
    "doctor", "",
    "checks whether a Redis is suitable for the limits; exit status 0: ok, 1: warning, 2: critical, 3: no reply",
    kDoctorOptions, runDoctor};

}  // namespace sliding_log::tool
