#include "membership.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "redis/slot_map.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// The reply of one node to CLUSTER NODES.
struct Acquaintances {
    std::string self;
    std::set<std::string> ids;  // including that of the node
};

/// nullopt if the user may not ask.
std::optional<Acquaintances> acquaintancesOf(Server& server) {
    const Reply reply = server.ask({"CLUSTER", "NODES"});
    if (reply.isError()) {
        return std::nullopt;
    }
    Acquaintances found;
    std::string_view text = reply.text();
    while (!text.empty()) {  // <id> <address> <flag>,<flag> …
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const std::string id(line.substr(0, line.find(' ')));
        if (line.find("handshake") != std::string_view::npos) {
            continue;
        }
        if (line.find("myself") != std::string_view::npos) {
            found.self = id;
        }
        found.ids.insert(id);
    }
    return found;
}

/// The nodes that the masters know, as far as they reply.
std::set<std::string> membersOf(const StoreSettings& settings, std::span<const Endpoint> masters) {
    std::set<std::string> ids;
    for (const Endpoint& each : masters) {
        try {
            Server master(each, settings.login);
            if (const std::optional<Acquaintances> known = acquaintancesOf(master)) {
                ids.insert(known->ids.begin(), known->ids.end());
            }
        } catch (const CouldNotAsk&) {
            continue;  // reported by the checks of the masters
        }
    }
    return ids;
}

void inspectOne(Findings& findings, Server& server, const std::set<std::string>& members) {
    const Reply slots = server.ask({"CLUSTER", "SLOTS"});
    if (slots.isError()) {
        findings.add("cluster", Status::Critical, "CLUSTER SLOTS answered: " + printable(slots.text()));
        return;
    }
    if (readSlotMap(*slots.raw()).empty()) {
        findings.add("cluster", Status::Critical,
                     "the server is not in the cluster: it knows no node that serves a slot");
        return;
    }
    const std::optional<Acquaintances> known = acquaintancesOf(server);
    if (known && !members.empty() && !members.contains(known->self)) {
        findings.add("cluster", Status::Critical, "the server is not in the cluster: no master knows it");
    } else {
        findings.add("cluster", Status::Ok, "the server knows the cluster");
    }
}

}  // namespace

bool inspectMembership(Findings& findings, const StoreSettings& settings, std::span<const Endpoint> masters) {
    std::vector<Endpoint> others;
    std::ranges::copy_if(settings.servers, std::back_inserter(others),
                         [&](const Endpoint& each) { return std::ranges::find(masters, each) == masters.end(); });
    const std::set<std::string> members = others.empty() ? std::set<std::string>() : membersOf(settings, masters);
    bool answered = false;
    for (const Endpoint& each : others) {
        findings.of(nameOf(each));
        try {
            Server server(each, settings.login);
            inspectOne(findings, server, members);
            answered = true;
        } catch (const CouldNotAsk& failure) {
            findings.add("answers", Status::Warning, failure.what());
        }
    }
    return answered;
}

}  // namespace sliding_log::tool
